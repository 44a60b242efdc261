//! What users link: a small client of a space.
