//! A hardware profile of what was found.
//!
//! Every number says that it was measured, or why it was not and which profile it is taken from.

use super::findings::{Figure, Findings};
use super::single::line_figure;
use crate::profile::{Cache, Compute, Hwcc, Memory, Pcc, Profile, Quantity, Wait};
use crate::sync_mode::SyncMode;

/// Where numbers of memory come from that were not measured.
const FALLBACK: &str = "dram";
/// Where those of cache-bypassing words come from.
const FALLBACK_PCC: &str = "pcc-spr";
/// Where computation comes from, which is the engine's and not the machine's.
const FALLBACK_COMPUTE: &str = "tigon-osdi25-measured";

struct Writer<'a> {
    findings: &'a Findings,
    /// "measured by ... on ..., <date>".
    head: String,
}

impl Writer<'_> {
    fn measured(&self, figure: &Figure, value: f64, unit: &str, how: &str) -> Quantity {
        let source = format!("{}, median of {}: {how}", self.head, figure.batches);
        Quantity { value: rounded(value), unit: unit.to_owned(), source }
    }

    fn taken(&self, from: &str, why: &str, quantity: &Quantity) -> Quantity {
        let source = format!("not measured ({why}); taken from profile {from}: {}", quantity.source);
        Quantity { source, ..quantity.clone() }
    }

    /// A figure as it is, or else the number of another profile.
    fn figure(&self, name: &str, unit: &str, how: &str, (from, other): (&str, &Quantity)) -> Quantity {
        match self.findings.figure(name) {
            Some(figure) => self.measured(figure, figure.median, unit, how),
            None => self.taken(from, self.findings.why_not(name), other),
        }
    }

    /// Fixed part and service of an operation that was measured alone and with all processors at one line.
    fn parts(
        &self,
        (alone, contended): (&str, &str),
        what: &str,
        other: (&Quantity, &Quantity),
    ) -> (Quantity, Quantity) {
        let why = self.findings.why_not(contended);
        let figures = (self.findings.figure(alone), self.findings.figure(contended));
        let (Some(alone), Some(contended)) = figures else {
            let taken = |quantity| self.taken(FALLBACK_PCC, why, quantity);
            return (taken(other.0), taken(other.1));
        };
        let users = self.findings.machine.processors as f64;
        let service = (contended.median / users).min(alone.median);
        let how = format!("{what}, {} ns alone, less its service", rounded(alone.median));
        let fixed = self.measured(alone, alone.median - service, "ns", &how);
        let how = format!("at most: {what} of {users} workers at one line, over {users}");
        (fixed, self.measured(contended, service, "ns", &how))
    }
}

/// Whole numbers where a fraction says nothing.
fn rounded(value: f64) -> f64 {
    assert!(value.is_finite() && value >= 0.0, "{value} is no time");
    if value >= 100.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

/// The profile, named `name`, of findings on memory that hosts of a pod see coherently (`coherent_data`) or
/// not; `date` is today's.
///
/// # Panics
/// If a built-in profile that numbers are taken from is not valid; a test says that they are.
pub fn profile_of(findings: &Findings, name: &str, date: &str, coherent_data: bool) -> Profile {
    let built_in = |name| Profile::built_in(name).expect("built-in profiles are valid");
    let (dram, spr, computes) = (built_in(FALLBACK), built_in(FALLBACK_PCC), built_in(FALLBACK_COMPUTE));
    let processor = &findings.machine.processor;
    assert!(!processor.is_empty() && !date.is_empty(), "a number says where and when it was measured");
    let writer = Writer { findings, head: format!("measured by liger probe on {processor}, {date}") };
    Profile {
        name: name.to_owned(),
        description: format!("{processor} as liger probe found it on {date}, its hosts being processes"),
        coherent_data,
        sync_words: SyncMode::Hwcc,
        memory: memory_of(&writer, &dram.memory),
        cache: cache_of(&writer, &dram.cache),
        hwcc: dram.hwcc.as_ref().map(|other| hwcc_of(&writer, other)),
        pcc: spr.pcc.as_ref().map(|other| pcc_of(&writer, other)),
        compute: compute_of(&writer, &computes.compute),
        wait: Wait {
            pause_ns: {
                let pause = (FALLBACK, &dram.wait.pause_ns);
                let mut pause = writer.figure("pause", "ns", "the pause instruction", pause);
                pause.value = pause.value.max(1.0);
                pause
            },
            pause_max_ns: writer.taken(FALLBACK, "a choice, not a cost", &dram.wait.pause_max_ns),
        },
        net: None,
        rdma: None,
        disk: None,
    }
}

fn memory_of(writer: &Writer<'_>, other: &Memory) -> Memory {
    let findings = writer.findings;
    let written = line_figure(findings.machine.verbs.write_back, true);
    let all = ["stream_read_all_cores", "stream_read_one_core"];
    let stream = all.into_iter().find(|name| findings.figure(name).is_some()).unwrap_or(all[0]);
    let bandwidth = |how, other| writer.figure(stream, "GB/s", how, (FALLBACK, other));
    Memory {
        read_ns: writer.figure(
            "memory_read",
            "ns",
            "dependent loads in random order over the memory",
            (FALLBACK, &other.read_ns),
        ),
        write_ns: writer.figure(
            &written,
            "ns",
            "writing one dirty line back, and a fence",
            (FALLBACK, &other.write_ns),
        ),
        link_gb_per_s: bandwidth("sequential reads of this machine, one host", &other.link_gb_per_s),
        device_gb_per_s: bandwidth(
            "sequential reads of this machine; no other was there",
            &other.device_gb_per_s,
        ),
        parallel_lines: writer.figure(
            "parallel_reads",
            "lines",
            "independent chases of one core, until another brought nothing",
            (FALLBACK, &other.parallel_lines),
        ),
    }
}

fn cache_of(writer: &Writer<'_>, other: &Cache) -> Cache {
    let findings = writer.findings;
    let told = |value: u64, unit: &str| {
        let source = format!("as the system says of {}, found by liger probe", findings.machine.processor);
        Quantity { value: value as f64, unit: unit.to_owned(), source }
    };
    let last = findings.machine.last_cache();
    let silent = "the system does not say";
    let dropped = line_figure(findings.machine.verbs.invalidate, false);
    let ns = |name: &str, how: &str, other| writer.figure(name, "ns", how, (FALLBACK, other));
    Cache {
        size_bytes: last.map_or_else(
            || writer.taken(FALLBACK, silent, &other.size_bytes),
            |cache| told(cache.bytes, "bytes"),
        ),
        ways: last
            .filter(|cache| cache.ways > 0)
            .map_or_else(|| writer.taken(FALLBACK, silent, &other.ways), |cache| told(cache.ways, "ways")),
        hit_ns: ns("cached_read_64", "reading 64 cached bytes", &other.hit_ns),
        command_ns: ns("write_back_begun", "write_back of a clean line, without a fence", &other.command_ns),
        invalidate_ns: ns(&dropped, "invalidate of a clean line, and a fence", &other.invalidate_ns),
        fence_ns: ns("fence_idle", "a fence with nothing pending", &other.fence_ns),
    }
}

fn hwcc_of(writer: &Writer<'_>, other: &Hwcc) -> Hwcc {
    let ns = |name: &str, how: &str, other| writer.figure(name, "ns", how, (FALLBACK, other));
    Hwcc {
        hit_ns: ns("word_load_hit", "load of a word that is here", &other.hit_ns),
        swap_ns: ns("swap_owned", "compare-and-swap on a line that this core owns", &other.swap_ns),
        core_ns: ns(
            "handover_workers",
            "half a round trip of two workers of one process: a store, and the load that sees it",
            &other.core_ns,
        ),
        transfer_ns: ns(
            "handover_processes",
            "half a round trip of two processes: a store, and the load that sees it",
            &other.transfer_ns,
        ),
    }
}

fn pcc_of(writer: &Writer<'_>, other: &Pcc) -> Pcc {
    let load = ("pload", "pload_contended");
    let (load_ns, load_service_ns) =
        writer.parts(load, "dropping the line, fence and load", (&other.load_ns, &other.load_service_ns));
    let swap = ("pcas", "pcas_contended");
    let (swap_ns, swap_service_ns) = writer.parts(
        swap,
        "compare-and-swap between two drops of the line",
        (&other.swap_ns, &other.swap_service_ns),
    );
    let store = (FALLBACK_PCC, &other.store_ns);
    Pcc {
        load_ns,
        load_service_ns,
        swap_ns,
        swap_service_ns,
        store_ns: writer.figure("pstore_fence", "ns", "store between two drops of the line", store),
        swap_queues: writer.taken(FALLBACK_PCC, "this machine has no such device", &other.swap_queues),
    }
}

fn compute_of(writer: &Writer<'_>, other: &Compute) -> Compute {
    let taken = |quantity| writer.taken(FALLBACK_COMPUTE, "computation is the engine's", quantity);
    Compute {
        transaction_ns: taken(&other.transaction_ns),
        call_ns: taken(&other.call_ns),
        index_node_ns: taken(&other.index_node_ns),
        row_ns: taken(&other.row_ns),
        dram_line_ns: taken(&other.dram_line_ns),
        change_ns: taken(&other.change_ns),
        content_ns: taken(&other.content_ns),
        message_ns: taken(&other.message_ns),
    }
}
