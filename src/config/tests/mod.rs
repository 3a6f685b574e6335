//! Whole configurations: what is refused with which message, what a schema makes of the same text, texts at random, and the order of a chain.

mod agreement;
mod cases;
mod dropins;
mod fuzz;
mod messages;
mod order;
