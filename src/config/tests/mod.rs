//! Whole configurations: what is refused with which message, what a schema makes of the same text, and texts at random.

mod agreement;
mod cases;
mod dropins;
mod fuzz;
mod messages;
