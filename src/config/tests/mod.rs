//! Tests of whole configurations: error messages, agreement with the schema, random texts, and the order of a chain.

mod agreement;
mod cases;
mod dropins;
mod fuzz;
mod messages;
mod order;
