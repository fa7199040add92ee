//! Tests of the shared-tuple index: against a model, and with threads as hosts. (In the simulator:
//! crates/sim.)

mod kit;
mod model;
mod threads;
