//! Pictures: figures over time with moments at which something happened ([`svg`], [`text`]), and lines over
//! named points ([`chart`]).

pub mod chart;
pub mod svg;
pub mod text;

/// A line.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Value after value, each for one step of time.
    pub values: Vec<f64>,
}

/// What happened at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A host was killed.
    Killed,
    /// A host was stopped.
    Hung,
    /// It was a member again.
    Back,
}

/// A moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Moment {
    /// Seconds from the beginning.
    pub at_s: f64,
    /// What happened.
    pub what: What,
    /// To which hosts.
    pub hosts: Vec<usize>,
}

/// Lines over the same time.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What is shown.
    pub title: String,
    /// What values mean, with their unit.
    pub unit: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// What begins and ends at some times.
#[derive(Clone, PartialEq, Debug)]
pub struct Band {
    /// What it is.
    pub name: String,
    /// From and to, in seconds from the beginning.
    pub spans: Vec<(f64, f64)>,
}

/// Panels one below the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What it is about.
    pub title: String,
    /// How it was made.
    pub subtitle: String,
    /// Seconds of a step.
    pub step_s: f64,
    /// The panels.
    pub panels: Vec<Panel>,
    /// Moments, in all panels.
    pub moments: Vec<Moment>,
    /// Below the panels, and what they have in common; none: there is nothing below.
    pub bands: Vec<Band>,
    /// What bands are.
    pub bands_title: String,
}
