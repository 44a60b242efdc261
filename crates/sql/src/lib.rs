//! SQLite on a branch: copy-on-write pages, row images, diff, promotion.
