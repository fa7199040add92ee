//! Tests of the shared-tuple index: against a model, with threads as hosts, and in the simulator.

mod kit;
mod model;
mod sim;
mod threads;
