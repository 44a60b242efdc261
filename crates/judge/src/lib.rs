//! The judge of histories: pure, shares no code with what it judges.
