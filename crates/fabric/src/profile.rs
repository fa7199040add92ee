//! Hardware profiles: what verbs cost on a machine, as data files with a unit and a source for every number.
//!
//! A profile is a TOML file (crates/fabric/profiles/). A number is `{ value = 259, unit = "ns", source =
//! "..." }`; the unit must be the one the field expects, the source must not be empty, and unknown or missing
//! fields are errors, so that a typing mistake cannot turn into a performance result.

use std::path::Path;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::sync_mode::SyncMode;

/// What is wrong with a profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No built-in profile has this name.
    #[error("no built-in profile {name:?}, and no file of this name; there are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// The file cannot be read.
    #[error("profile {file}: {source}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not TOML, or a field is missing, unknown or of another type.
    #[error("profile {file}: {source}")]
    Malformed {
        /// Name or path of the profile.
        file: String,
        /// Which field, where.
        source: Box<toml::de::Error>,
    },
    /// A field has another unit, no source, or a value that makes no sense.
    #[error("profile {file}: {section}.{field}: {problem}")]
    Bad {
        /// Name or path of the profile.
        file: String,
        /// The section of the field.
        section: &'static str,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// One number of a profile.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where it comes from.
    pub source: String,
}

macro_rules! section {
    ($(#[$doc:meta])* $section:ident $name:literal {
        $($(#[$fdoc:meta])* $field:ident $unit:literal $min:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $section { $($(#[$fdoc])* pub $field: Quantity,)* }

        impl $section {
            fn check(&self, file: &str) -> Result<(), ProfileError> {
                $(const { assert!($min >= 0.0, "no quantity is negative") };)*
                $(check(file, $name, stringify!($field), &self.$field, $unit, $min)?;)*
                Ok(())
            }

            /// Section, field and number, in declaration order.
            pub fn entries(&self) -> Vec<(&'static str, &'static str, &Quantity)> {
                vec![$(($name, stringify!($field), &self.$field),)*]
            }
        }
    };
}

section! {
    /// The shared memory as a host sees it.
    Memory "memory" {
        /// Latency of reading a line that is not cached.
        read_ns "ns" 1.0,
        /// Time until a write-back is complete.
        write_ns "ns" 1.0,
        /// Bandwidth between one host and the device.
        link_gb_per_s "GB/s" 0.001,
        /// Bandwidth of the device, all hosts together.
        device_gb_per_s "GB/s" 0.001,
        /// Misses that one worker has outstanding at most.
        parallel_lines "lines" 1.0,
    }
}

section! {
    /// A host's cache of shared data.
    Cache "cache" {
        /// Its size.
        size_bytes "bytes" 1024.0,
        /// Its associativity.
        ways "ways" 1.0,
        /// Reading or writing a cached line.
        hit_ns "ns" 0.0,
        /// Issuing a write_back or invalidate of one line.
        command_ns "ns" 0.0,
        /// Time until an invalidate of a clean line is complete.
        invalidate_ns "ns" 0.0,
        /// A fence with nothing pending.
        fence_ns "ns" 0.0,
    }
}

section! {
    /// Sync words as ordinary atomics on hardware-coherent lines.
    Hwcc "hwcc" {
        /// Load of a word whose line this worker or (shared) its host holds.
        hit_ns "ns" 0.0,
        /// Compare-and-swap on a line that this worker owns.
        swap_ns "ns" 0.0,
        /// Getting the line from another worker of this host.
        core_ns "ns" 0.0,
        /// Getting the line from another host.
        transfer_ns "ns" 0.0,
    }
}

section! {
    /// Sync words as cache-bypassing operations at the device.
    Pcc "pcc" {
        /// Fixed part of a load.
        load_ns "ns" 0.0,
        /// Part of a load during which its line serves nobody else.
        load_service_ns "ns" 0.0,
        /// Fixed part of a compare-and-swap.
        swap_ns "ns" 0.0,
        /// Part of a compare-and-swap during which its queue serves nobody else.
        swap_service_ns "ns" 0.0,
        /// Time until a store is complete.
        store_ns "ns" 0.0,
        /// Queues over which addresses are spread.
        swap_queues "queues" 1.0,
    }
}

section! {
    /// Host-local computation, charged by `spend`.
    Compute "compute" {
        /// Fixed part of a transaction.
        transaction_ns "ns" 0.0,
        /// One call of a transaction, the application's part included.
        call_ns "ns" 0.0,
        /// Searching one node of an index in DRAM.
        index_node_ns "ns" 0.0,
        /// Touching one row's metadata in DRAM.
        row_ns "ns" 0.0,
        /// Copying 64 bytes of a DRAM row.
        dram_line_ns "ns" 0.0,
        /// Changing one row, beside the call: its private copy and its log record.
        change_ns "ns" 0.0,
        /// Making up 64 bytes of a row's new content.
        content_ns "ns" 0.0,
        /// Encoding, dispatching or handling one message.
        message_ns "ns" 0.0,
    }
}

section! {
    /// Waiting.
    Wait "wait" {
        /// The shortest pause.
        pause_ns "ns" 1.0,
        /// The longest pause; a wait is polled at an eighth of its length so far.
        pause_max_ns "ns" 1.0,
    }
}

section! {
    /// A network between the hosts, beside the shared memory.
    Net "net" {
        /// From the end of a send until the other host can receive, for an empty message.
        latency_ns "ns" 0.0,
        /// Bandwidth of a host towards the network.
        gb_per_s "GB/s" 0.001,
        /// Processor time of sending a message.
        send_ns "ns" 0.0,
        /// Processor time of receiving a message.
        receive_ns "ns" 0.0,
    }
}

section! {
    /// One compute server's way to memory servers: one-sided remote accesses (RDMA).
    Rdma "rdma" {
        /// From posting a small request until its answer is there.
        round_trip_ns "ns" 1.0,
        /// How much longer that takes where words are swapped.
        atomics_factor "times" 1.0,
        /// Bandwidth of the compute server's adapter in each direction.
        link_gb_per_s "GB/s" 0.001,
        /// Operations that the adapter starts.
        operations_per_us "1/us" 0.001,
        /// Processor time of posting a request.
        post_ns "ns" 0.0,
        /// Transactions that a thread runs at once, so that it has work while others wait.
        coroutines "transactions" 1.0,
    }
}

section! {
    /// Each host's disk, for its log.
    Disk "disk" {
        /// A call of the operating system.
        call_ns "ns" 0.0,
        /// Copying bytes to or from the system.
        copy_gb_per_s "GB/s" 0.001,
        /// Moving bytes to or from the device.
        move_gb_per_s "GB/s" 0.001,
        /// What a sync waits for beside the bytes that it moves.
        sync_ns "ns" 0.0,
    }
}

/// What one machine's memory and processors cost.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name: that of the file, without its ending.
    #[serde(skip)]
    pub name: String,
    /// What machine this is.
    pub description: String,
    /// Data lines, too, are kept coherent by hardware.
    pub coherent_data: bool,
    /// Kind of the sync words; the section of that name must be there.
    #[serde(deserialize_with = "sync_mode")]
    pub sync_words: SyncMode,
    /// The shared memory.
    pub memory: Memory,
    /// A host's cache.
    pub cache: Cache,
    /// Sync words, if hardware-coherent.
    pub hwcc: Option<Hwcc>,
    /// Sync words, if cache-bypassing.
    pub pcc: Option<Pcc>,
    /// Computation.
    pub compute: Compute,
    /// Waiting.
    pub wait: Wait,
    /// The network, if one is known.
    pub net: Option<Net>,
    /// Remote memory, if any is known.
    pub rdma: Option<Rdma>,
    /// A disk for each host, if one is known.
    pub disk: Option<Disk>,
}

const BUILT_IN: &[(&str, &str)] = &[
    ("tigon-osdi25", include_str!("../profiles/tigon-osdi25.toml")),
    ("tigon-osdi25-measured", include_str!("../profiles/tigon-osdi25-measured.toml")),
    ("tigon-back-invalidate", include_str!("../profiles/tigon-back-invalidate.toml")),
    ("polar-xconn", include_str!("../profiles/polar-xconn.toml")),
    ("pcc-spr", include_str!("../profiles/pcc-spr.toml")),
    ("dram", include_str!("../profiles/dram.toml")),
];

impl Profile {
    /// Names of the built-in profiles.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The profile in the file `name`, or if there is no such file, the built-in one.
    ///
    /// # Errors
    /// If there is neither, or the file is no valid profile; the error names file and field.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        let path = Path::new(name);
        if path.exists() { Self::from_file(path) } else { Self::built_in(name) }
    }

    /// The built-in profile of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn built_in(name: &str) -> Result<Self, ProfileError> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let known = Self::built_in_names().collect::<Vec<_>>().join(", ");
            return Err(ProfileError::Unknown { name: name.to_owned(), known });
        };
        Self::parse(name, text)
    }

    /// The profile in a file.
    ///
    /// # Errors
    /// If the file cannot be read or is no valid profile; the error names file and field.
    pub fn from_file(path: &Path) -> Result<Self, ProfileError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ProfileError::Unreadable { file: file.clone(), source })?;
        let mut profile = Self::parse(&file, &text)?;
        profile.name = path.file_stem().map_or(file, |stem| stem.to_string_lossy().into_owned());
        Ok(profile)
    }

    /// The profile in `text`; `file` is its name in errors.
    ///
    /// # Errors
    /// If it is no valid profile.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let malformed = |source| ProfileError::Malformed { file: file.to_owned(), source: Box::new(source) };
        let mut profile: Self = toml::from_str(text).map_err(malformed)?;
        profile.name = file.to_owned();
        profile.check(file)?;
        Ok(profile)
    }

    /// The text of a file that holds this profile.
    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = format!(
            "# Hardware profile \"{}\". Every number has a unit and a source.\n\ndescription = \"{}\"\n\n\
             # Data lines are kept coherent between hosts by hardware (write_back and invalidate then cost \
             their issue only).\ncoherent_data = {}\n\n# Sync words: \"hwcc\" = ordinary atomics on \
             hardware-coherent lines, \"pcc\" = cache-bypassing device operations.\nsync_words = \"{}\"\n",
            self.name,
            quoted(&self.description),
            self.coherent_data,
            self.sync_words,
        );
        let mut last = "";
        for (section, field, Quantity { value, unit, source }) in self.entries() {
            if section != last {
                text.push_str(&format!("\n[{section}]\n"));
                last = section;
            }
            let source = quoted(source);
            text.push_str(&format!(
                "{field} = {{ value = {value}, unit = \"{unit}\", source = \"{source}\" }}\n"
            ));
        }
        debug_assert!(Self::parse(&self.name, &text).is_ok_and(|read| read == *self), "unreadable: {text}");
        text
    }

    fn check(&self, file: &str) -> Result<(), ProfileError> {
        self.memory.check(file)?;
        self.cache.check(file)?;
        self.compute.check(file)?;
        self.wait.check(file)?;
        self.net.as_ref().map_or(Ok(()), |net| net.check(file))?;
        self.rdma.as_ref().map_or(Ok(()), |rdma| rdma.check(file))?;
        self.disk.as_ref().map_or(Ok(()), |disk| disk.check(file))?;
        let (section, there) = match self.sync_words {
            SyncMode::Hwcc => ("hwcc", self.hwcc.as_ref().map(|s| s.check(file))),
            SyncMode::Pcc => ("pcc", self.pcc.as_ref().map(|s| s.check(file))),
        };
        there.unwrap_or_else(|| {
            let problem = "sync_words asks for this section, and it is missing".to_owned();
            Err(ProfileError::Bad { file: file.to_owned(), section, field: "*", problem })
        })
    }

    /// Every number with its section, field, unit and source, for printing.
    pub fn entries(&self) -> Vec<(&'static str, &'static str, &Quantity)> {
        let needed = if self.sync_words == SyncMode::Hwcc { self.hwcc.is_some() } else { self.pcc.is_some() };
        debug_assert!(needed, "a profile prices the sync words that it has");
        let mut all = self.memory.entries();
        all.extend(self.cache.entries());
        all.extend(self.hwcc.iter().flat_map(Hwcc::entries));
        all.extend(self.pcc.iter().flat_map(Pcc::entries));
        all.extend(self.compute.entries());
        all.extend(self.wait.entries());
        all.extend(self.net.iter().flat_map(Net::entries));
        all.extend(self.rdma.iter().flat_map(Rdma::entries));
        all.extend(self.disk.iter().flat_map(Disk::entries));
        all
    }
}

fn sync_mode<'de, D: Deserializer<'de>>(from: D) -> Result<SyncMode, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn check(
    file: &str,
    section: &'static str,
    field: &'static str,
    quantity: &Quantity,
    unit: &str,
    min: f64,
) -> Result<(), ProfileError> {
    let bad = |problem| Err(ProfileError::Bad { file: file.to_owned(), section, field, problem });
    let Quantity { value, unit: given, source } = quantity;
    if given != unit {
        return bad(format!("the unit is {unit:?}, not {given:?}"));
    }
    if source.trim().is_empty() {
        return bad("the source is missing".to_owned());
    }
    if !value.is_finite() || *value < min {
        return bad(format!("{value} {unit} is below the least sensible value, {min} {unit}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profiles_are_valid() {
        for name in Profile::built_in_names() {
            let profile = Profile::built_in(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(profile.entries().len() >= 20);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for name in Profile::built_in_names() {
            let mut profile = Profile::built_in(name).expect("built in");
            profile.description = r#"quoted "and" back\slashed"#.to_owned();
            let again = Profile::parse(name, &profile.to_toml()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again, profile);
        }
    }

    /// The calibrations of computation, on the same memory: one measured, one fitted by one factor, and by
    /// one number for each thing that the measured engine does not do.
    #[test]
    fn the_calibrations_differ_by_one_factor_and_three_numbers() {
        let built_in = |name| Profile::built_in(name).expect("built in");
        let (fitted, measured) = (built_in("tigon-osdi25"), built_in("tigon-osdi25-measured"));
        let all = |p: &Profile| Profile {
            name: String::new(),
            description: String::new(),
            compute: measured.compute.clone(),
            ..p.clone()
        };
        assert_eq!(all(&fitted), all(&measured));
        let factor = fitted.compute.transaction_ns.value / measured.compute.transaction_ns.value;
        let own = ["change_ns", "content_ns", "message_ns"];
        for ((_, field, a), (_, _, b)) in fitted.compute.entries().iter().zip(measured.compute.entries()) {
            if own.contains(field) {
                assert!(a.value > b.value, "{field}");
                continue;
            }
            let off = a.value - factor * b.value;
            assert!(off.abs() <= 1.0, "{field}: {} ns is not {factor:.3} x {} ns", a.value, b.value);
        }
        assert_eq!(fitted.compute, built_in("tigon-back-invalidate").compute);
    }

    #[test]
    fn errors_name_file_and_field() {
        let text = BUILT_IN[0].1;
        let broken = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Profile::parse("mine.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let error =
            broken("read_ns = { value = 259, unit = \"ns\"", "read_ns = { value = 259, unit = \"us\"");
        assert_eq!(error, "profile mine.toml: memory.read_ns: the unit is \"ns\", not \"us\"");
        let error = broken("read_ns = { value = 259", "read_ns = { value = 0");
        assert!(error.contains("memory.read_ns: 0 ns is below"), "{error}");
        let error = broken("ways = ", "wais = ");
        assert!(error.contains("mine.toml") && error.contains("wais"), "{error}");
        let error = broken("sync_words = \"hwcc\"", "sync_words = \"pcc\"");
        assert!(error.contains("pcc.*"), "{error}");
        assert!(Profile::built_in("nonsense").unwrap_err().to_string().contains("pcc-spr"));
    }
}
