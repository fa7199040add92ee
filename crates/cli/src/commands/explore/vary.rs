//! Hardware parameters that can be varied, and what varying them does to a pod.

use std::str::FromStr;

use liger_fabric::SyncMode;
use liger_fabric::profile::Profile;

/// A hardware parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// Latency of shared memory: reads and write-backs.
    CxlLatency,
    /// Bandwidth of the device, and of each host's link.
    Bandwidth,
    /// Getting a hardware-coherent line from another host; without hardware coherence, a compare-and-swap
    /// at the device.
    Coherence,
    /// Hardware-coherent memory for shared rows and their index.
    Hwcc,
    /// Hosts.
    Hosts,
    /// Workers of each host.
    Workers,
}

const ALL: [(Parameter, &str, &str, f64, f64); 6] = [
    (Parameter::CxlLatency, "cxl-latency", "ns", 1.0, 1e6),
    (Parameter::Bandwidth, "bandwidth", "GB/s", 0.01, 1e5),
    (Parameter::Coherence, "coherence", "ns", 0.0, 1e6),
    (Parameter::Hwcc, "hwcc", "MB", 0.001, 1e6),
    (Parameter::Hosts, "hosts", "", 1.0, 16.0),
    (Parameter::Workers, "workers", "", 1.0, 30.0),
];

impl Parameter {
    fn row(self) -> &'static (Parameter, &'static str, &'static str, f64, f64) {
        ALL.iter().find(|row| row.0 == self).expect("every parameter has a row")
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its name and unit, for people.
    pub fn title(self) -> String {
        match self.row().2 {
            "" => self.name().to_owned(),
            unit => format!("{}, {unit}", self.name()),
        }
    }
}

/// A parameter and its values.
#[derive(Clone, PartialEq, Debug)]
pub struct Vary {
    /// Which.
    pub parameter: Parameter,
    /// At least one.
    pub values: Vec<f64>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || ALL.map(|row| row.1).join(", ");
        let Some((name, values)) = text.split_once('=') else {
            return Err(format!("\"{text}\" has no values: write it as cxl-latency=100,200,400"));
        };
        let Some((parameter, _, unit, least, most)) = ALL.iter().find(|row| row.1 == name) else {
            return Err(format!("there is no parameter \"{name}\", only {}", known()));
        };
        let whole = matches!(parameter, Parameter::Hosts | Parameter::Workers);
        let value = |text: &str| -> Result<f64, String> {
            let value: f64 = text.trim().parse().map_err(|_| format!("{name}: \"{text}\" is no number"))?;
            let fits = (*least..=*most).contains(&value) && (!whole || value.fract() == 0.0);
            let kind = if whole { "whole numbers from" } else { "from" };
            fits.then_some(value)
                .ok_or_else(|| format!("{name}: {text}: {kind} {least} to {most} {unit} are possible"))
        };
        let values = values.split(',').map(value).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { parameter: *parameter, values })
    }
}

/// A pod that is to be simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Pod {
    /// Its hardware.
    pub profile: Profile,
    /// Its hosts.
    pub hosts: u8,
    /// Workers of each.
    pub workers: u8,
    /// Hardware-coherent memory for shared rows and their index, bytes; none: as much as they want.
    pub hwcc_bytes: Option<u64>,
}

impl Pod {
    /// The pod with another value of one parameter.
    pub fn with(mut self, parameter: Parameter, value: f64) -> Self {
        let profile = &mut self.profile;
        match parameter {
            Parameter::CxlLatency => {
                let scale = value / profile.memory.read_ns.value;
                profile.memory.read_ns.value = value;
                profile.memory.write_ns.value *= scale;
            }
            Parameter::Bandwidth => {
                profile.memory.link_gb_per_s.value = value;
                profile.memory.device_gb_per_s.value = value;
            }
            Parameter::Coherence => match (profile.sync_words, &mut profile.hwcc, &mut profile.pcc) {
                (SyncMode::Hwcc, Some(hwcc), _) => hwcc.transfer_ns.value = value,
                (_, _, Some(pcc)) => pcc.swap_ns.value = value,
                _ => unreachable!("a checked profile has the section of its sync words"),
            },
            Parameter::Hwcc => self.hwcc_bytes = Some((1e6 * value) as u64),
            Parameter::Hosts => self.hosts = value as u8,
            Parameter::Workers => self.workers = value as u8,
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_or_refused_with_a_reason() {
        let vary: Vary = "cxl-latency=100, 200,400".parse().expect("three latencies");
        assert_eq!((vary.parameter, vary.values), (Parameter::CxlLatency, vec![100.0, 200.0, 400.0]));
        for (wrong, why) in [
            ("latency=5", "there is no parameter \"latency\""),
            ("hosts", "has no values"),
            ("hosts=2,x", "\"x\" is no number"),
            ("hosts=17", "1 to 16"),
            ("workers=1.5", "whole numbers"),
            ("bandwidth=0", "0.01 to"),
        ] {
            let error = wrong.parse::<Vary>().expect_err(wrong);
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_parameter_changes_its_part_of_a_pod() {
        let profile = Profile::built_in("tigon-osdi25").expect("built in");
        let pod = Pod { profile, hosts: 8, workers: 3, hwcc_bytes: None };
        let far = pod.clone().with(Parameter::CxlLatency, 518.0);
        assert_eq!((far.profile.memory.read_ns.value, far.profile.memory.write_ns.value), (518.0, 518.0));
        let other = pod.clone().with(Parameter::Hosts, 4.0).with(Parameter::Hwcc, 1.5);
        assert_eq!((other.hosts, other.hwcc_bytes, &other.profile), (4, Some(1_500_000), &pod.profile));
        let slow = pod.with(Parameter::Coherence, 900.0);
        assert_eq!(slow.profile.hwcc.expect("hardware coherence").transfer_ns.value, 900.0);
    }
}
