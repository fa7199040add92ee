//! Published numbers, in transactions per second unless said otherwise.

/// Source of Tigon's lines.
pub const ARTIFACT: &str = "raw results of the authors in the history of the artifact of Tigon (OSDI 2025), \
                            parent of commit 86a494f; Motor: results/motor there. The final paper measured \
                            again: 528 K/s at 0/0, 460 K/s at 60/90, Sundial+ and DS2PL+ 37 % and 8.5 % \
                            ahead at 0/0";

/// Source of Pasha's lines.
pub const PASHA: &str = "talk on Pasha (CIDR 2025): at 60/90 5.9 times Sundial-NET, 1.6 times -CXL, 1.1 \
                         times -SHM; at 0/0 1.4 times -SHM. Only these ratios; Pasha's own throughput \
                         counts as 1";

const fn all<const N: usize>(values: [f64; N]) -> [Option<f64>; N] {
    let mut out = [None; N];
    let mut i = 0;
    while i < N {
        out[i] = Some(values[i]);
        i += 1;
    }
    out
}

/// Remote percentages of TPC-C.
pub static TPCC_X: [&str; 7] = ["0/0", "10/15", "20/30", "30/45", "40/60", "50/75", "60/90"];
/// Cross shares of YCSB.
pub static YCSB_X: [&str; 7] = ["0", "10", "20", "40", "60", "80", "100"];

type Seven = [Option<f64>; 7];

pub static TPCC_TIGON: Seven = all([411808., 348352., 345208., 340696., 338651., 335788., 334907.]);
pub static TPCC_SUNDIAL_PLUS: Seven = all([581045., 374246., 301100., 258503., 229503., 206922., 191471.]);
pub static TPCC_DS2PL_PLUS: Seven = all([438817., 274884., 218060., 184744., 164757., 150165., 139090.]);
pub static TPCC_SUNDIAL_CXL: Seven = all([412423., 242567., 184583., 151522., 130420., 115338., 103343.]);
pub static TPCC_DS2PL_CXL: Seven = all([326549., 188417., 142725., 116926., 101331., 89368., 80983.]);
pub static TPCC_SUNDIAL_NET: Seven = all([412110., 183842., 127170., 98179., 78182., 64284., 55904.]);
pub static TPCC_DS2PL_NET: Seven = all([325290., 150117., 99958., 76442., 63465., 54577., 46576.]);
pub static TPCC_MOTOR: Seven = all([28529., 28130., 28429., 28897., 28490., 28910., 28034.]);

pub static YCSB_100_TIGON: Seven =
    all([2520360., 1592120., 1475990., 1348890., 1241050., 1168510., 1075020.]);
pub static YCSB_100_SUNDIAL: Seven = all([2888450., 1801990., 1213130., 880496., 648967., 518680., 387524.]);
pub static YCSB_100_DS2PL: Seven = all([2586940., 1376630., 1069950., 750608., 566989., 358842., 374074.]);
pub static YCSB_95_TIGON: Seven = all([1682980., 1042640., 932835., 798837., 721599., 664436., 626952.]);
pub static YCSB_95_SUNDIAL: Seven = all([1793050., 1072270., 777278., 505984., 375056., 301906., 251649.]);
pub static YCSB_95_DS2PL: Seven = all([1711610., 1082790., 808455., 540034., 404747., 325730., 273976.]);
pub static YCSB_50_TIGON: Seven = all([491148., 377105., 352476., 315343., 286752., 265809., 249708.]);
pub static YCSB_50_SUNDIAL: Seven = all([489093., 353644., 287680., 213226., 171058., 143710., 123367.]);
pub static YCSB_50_DS2PL: Seven = all([485260., 349545., 280136., 206132., 164832., 138223., 119643.]);
pub static YCSB_0_TIGON: Seven = all([288987., 232145., 220668., 203252., 189430., 179548., 171662.]);
pub static YCSB_0_SUNDIAL: Seven = all([278647., 209971., 173582., 134557., 110653., 94647., 83365.]);
pub static YCSB_0_DS2PL: Seven = all([286252., 213301., 176720., 134995., 110088., 94093., 82424.]);
// Flat over all shares, as the artifact says.
pub static MOTOR_100: Seven = all([232700.; 7]);
pub static MOTOR_95: Seven = all([209200.; 7]);
pub static MOTOR_50: Seven = all([76300.; 7]);
pub static MOTOR_0: Seven = all([39200.; 7]);

pub static SWCC_TPCC_THROUGH: [Option<f64>; 2] = all([348352., 334907.]);
pub static SWCC_TPCC_ALONE: [Option<f64>; 2] = all([347945., 336518.]);
pub static SWCC_TPCC_BYPASS: [Option<f64>; 2] = all([279068., 237815.]);
pub static SWCC_TPCC_HWCC: [Option<f64>; 2] = all([351035., 270329.]);
pub static SWCC_YCSB_THROUGH: [Option<f64>; 3] = all([1042640., 756193., 626952.]);
pub static SWCC_YCSB_ALONE: [Option<f64>; 3] = all([904327., 516141., 373371.]);
pub static SWCC_YCSB_BYPASS: [Option<f64>; 3] = all([358629., 336401., 320145.]);
pub static SWCC_YCSB_HWCC: [Option<f64>; 3] = all([858528., 295880., 165224.]);

// Exponent 0.99, all transactions crossing.
pub static SKEWED_TIGON: [Option<f64>; 1] = all([126693.]);
pub static SKEWED_SUNDIAL: [Option<f64>; 1] = all([50096.]);
pub static SKEWED_DS2PL: [Option<f64>; 1] = all([36560.]);
pub static SKEWED_NONE: [Option<f64>; 1] = [None];

/// Source of the cost of phantoms.
pub const PHANTOMS: &str = "Tigon (OSDI 2025), section 6: protection from phantoms costs 10 to 12 %, and \
                            without it Tigon is 5.8 % ahead of Sundial+ at 10/15; the points are computed \
                            from these and the raw results of Sundial+ and Tigon";
// Sundial+ at 10/15, 5.8 % more; what Tigon had at 60/90, by 0.89.
pub static PHANTOMS_TIGON: [Option<f64>; 2] = all([348352., 334907.]);
pub static PHANTOMS_OPEN: [Option<f64>; 2] = all([395952., 376300.]);
pub static PHANTOMS_SUNDIAL: [Option<f64>; 2] = all([374246., 191471.]);
pub static PHANTOMS_NONE: [Option<f64>; 2] = [None; 2];

/// Hosts of figure 6.
pub static HOSTS_X: [&str; 4] = ["1", "2", "4", "8"];
/// Source of figure 6.
pub const FINAL_HOSTS: &str = "Tigon (OSDI 2025), figure 6 and its text: from 1 to 8 hosts TPC-C at 60/90 \
                               grows 5.7 times (Sundial+ 2.4, DS2PL+ 2.1), by 55.1 (29.9, 21.6) K/s for \
                               each host from 2 on, to 460 K/s; the points are computed from these. YCSB \
                               95/5 with everything crossing grows 3.5 times (1.4, 1.5)";
// 460 K/s at 8 hosts; Sundial+ 1.75 times and DS2PL+ 2.5 times less.
pub static HOSTS_TPCC_TIGON: [Option<f64>; 4] = [Some(80_700.), Some(129_400.), None, Some(460_000.)];
pub static HOSTS_TPCC_SUNDIAL: [Option<f64>; 4] = [Some(109_500.), Some(83_500.), None, Some(262_900.)];
pub static HOSTS_TPCC_DS2PL: [Option<f64>; 4] = [Some(87_600.), Some(54_400.), None, Some(184_000.)];
pub static HOSTS_NONE: [Option<f64>; 4] = [None; 4];

/// Hardware-coherent memory of figure 7.
pub static HWCC_X: [&str; 5] = ["200", "150", "100", "50", "10"];
type Five = [Option<f64>; 5];
// At 200 MB the published runs had everything shared before and moved nothing.
pub static HWCC_TPCC_10: Five = all([348352., 352508., 352075., 352273., 349190.]);
pub static HWCC_TPCC_30: Five = all([340696., 331552., 331035., 331702., 293612.]);
pub static HWCC_TPCC_60: Five = all([334907., 317057., 318008., 307831., 247402.]);
pub static HWCC_YCSB_95_10: Five = all([1042640., 1017340., 1011180., 872837., 832043.]);
pub static HWCC_YCSB_95_50: Five = all([756193., 732018., 731384., 406700., 293858.]);
pub static HWCC_YCSB_95_100: Five = all([626952., 605410., 607859., 247542., 161663.]);
pub static HWCC_YCSB_50_100: Five = all([249708., 244854., 243719., 150015., 112297.]);
pub static HWCC_NONE: Five = [None; 5];

/// Source of table 1.
pub const LOGGING: &str = "Tigon (OSDI 2025), table 1: throughput, median and 99th percentile of latency. \
                           Beside it in the text: epochs of 10 ms commit 6.0 % less than no log, and an \
                           SSD writes 380 MB/s in a virtual machine. Of epochs of 1 ms the slowest \
                           hundredth took 345 and 373 ms: presumably the SSD does not sync so often";
/// Epochs of table 1, milliseconds.
pub static EPOCHS_X: [&str; 7] = ["none", "1", "10", "20", "30", "40", "50"];
pub static EPOCHS_NONE: [Option<f64>; 7] = [None; 7];
pub static EPOCHS_TPCC: Seven =
    [None, Some(508e3), Some(525e3), Some(532e3), Some(535e3), Some(537e3), Some(540e3)];
pub static EPOCHS_YCSB: Seven =
    [None, Some(516e3), Some(534e3), Some(538e3), Some(541e3), Some(542e3), Some(545e3)];
type Latency = (Option<f64>, Option<f64>);
// Median and 99th percentile, milliseconds.
static LATENCY_TPCC: [(f64, f64); 6] =
    [(17.7, 345.0), (22.6, 54.9), (26.0, 57.0), (31.6, 64.7), (37.3, 75.2), (43.3, 86.8)];
static LATENCY_YCSB: [(f64, f64); 6] =
    [(12.4, 373.1), (24.6, 62.3), (30.8, 72.3), (36.8, 82.6), (41.5, 89.6), (45.0, 95.4)];

/// Median and 99th percentile of latency, milliseconds, at the x of this number.
pub fn latency(figure: &str, line: &str, x: usize) -> Latency {
    let table = match (figure, line) {
        ("table1-tpcc", "Tigon") => &LATENCY_TPCC,
        ("table1-ycsb-50r", "Tigon") => &LATENCY_YCSB,
        _ => return (None, None),
    };
    let there = x.checked_sub(1).and_then(|at| table.get(at));
    (there.map(|both| both.0), there.map(|both| both.1))
}

/// Why the figure of all engines with and without a log has no published points.
pub const EPOCHS_RIVALS: &str = "nobody: the published runs have epochs of 10 ms everywhere, the raw results \
                                 of 20 ms";
pub static EPOCHS_RIVALS_X: [&str; 2] = ["none", "10"];
pub static EPOCHS_RIVALS_NONE: [Option<f64>; 2] = [None; 2];

/// Why the figure of routing has no published points.
pub const ROUTING: &str = "nobody: in the published runs each transaction is at home in any warehouse of its \
                           host, and workers of a host meet at its districts";
/// Why figures of cold starts have no published points.
pub const COLD: &str = "nobody: the published runs share everything before they measure, or measure after \
                        10 s of warm-up";
/// Measured times of a cold start.
pub static COURSE_X: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
pub static COURSE_NONE: [Option<f64>; 6] = [None; 6];

const NONE: Option<f64> = None;
/// A line of ours alone.
pub static NOWHERE: Seven = [NONE; 7];
pub static PASHA_PASHA: Seven = [NONE, NONE, NONE, NONE, NONE, NONE, Some(1.0)];
pub static PASHA_SUNDIAL_CXL: Seven = [NONE, NONE, NONE, NONE, NONE, NONE, Some(1.0 / 1.6)];
pub static PASHA_SUNDIAL_NET: Seven = [NONE, NONE, NONE, NONE, NONE, NONE, Some(1.0 / 5.9)];
pub static PASHA_SUNDIAL_SHM: Seven = [NONE, NONE, NONE, NONE, NONE, NONE, Some(1.0 / 1.1)];
