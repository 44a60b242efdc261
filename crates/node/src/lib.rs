//! The loop that runs effects, and the embedded API.
