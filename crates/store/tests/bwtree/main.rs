//! Tests of the shared-tuple index: against a model, with threads as hosts, and in the simulator.

mod kill;
mod kit;
mod model;
mod mutation;
mod sim;
mod threads;
