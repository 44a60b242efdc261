//! Front doors of a node: HTTP.
