//! Rows of TPC-H's eight tables at any scale, the same each time: numbers, dates and lists of words are
//! spread as the specification says; texts are of our own words, with those in them that its queries look
//! for.

/// The tables, each behind those that it refers to.
pub const TABLES: [&str; 8] =
    ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];
const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];
const CONTAINERS: [&[&str]; 2] =
    [&["SM", "LG", "MED", "JUMBO", "WRAP"], &["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]];
const COLORS: [&str; 20] = [
    "almond", "azure", "beige", "black", "blue", "brown", "coral", "cream", "forest", "green", "ivory",
    "khaki", "lemon", "linen", "navy", "olive", "peach", "plum", "red", "white",
];
const WORDS: [&str; 16] = [
    "special",
    "requests",
    "pending",
    "quick",
    "deposits",
    "accounts",
    "final",
    "carefully",
    "ironic",
    "packages",
    "bold",
    "even",
    "theodolites",
    "foxes",
    "sleep",
    "regular",
];
/// Days of the first order and of the day that is today, since 1992-01-01.
const TODAY: u64 = 1263;
const LAST_ORDER: u64 = 2405;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len() as u64) as usize]
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn words(&mut self, least: u64, most: u64) -> String {
        let count = self.between(least, most);
        (0..count).map(|_| self.of(&WORDS)).collect::<Vec<_>>().join(" ")
    }

    fn phone(&mut self, nation: u64) -> String {
        let (a, b, c) = (self.between(100, 999), self.between(100, 999), self.between(1000, 9999));
        format!("{}-{a}-{b}-{c}", nation + 10)
    }

    fn balance(&mut self) -> String {
        money(self.below(1_099_999) as i64 - 99_999)
    }
}

fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

/// A date so many days behind 1992-01-01.
fn date(days: u64) -> String {
    let mut left = days;
    let mut year = 1992;
    loop {
        let leap = year % 4 == 0;
        let long = if leap { 366 } else { 365 };
        if left < long {
            let months = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in months.into_iter().enumerate() {
                if left < length {
                    return format!("{year}-{:02}-{:02}", month + 1, left + 1);
                }
                left -= length;
            }
        }
        left -= long;
        year += 1;
    }
}

/// How many rows tables have at a scale.
struct Sizes {
    suppliers: u64,
    customers: u64,
    parts: u64,
    orders: u64,
}

impl Sizes {
    fn at(scale: f64) -> Sizes {
        let of = |rows: f64| (rows * scale).round().max(10.0) as u64;
        Sizes { suppliers: of(10e3), customers: of(150e3), parts: of(200e3), orders: of(1.5e6) }
    }

    /// One of the four suppliers of a part.
    fn supplier(&self, part: u64, which: u64) -> u64 {
        let all = self.suppliers;
        // With few suppliers the four would meet.
        let shift = (part - 1) / all % (all / 12).max(1);
        (part + which * (all / 4 + shift)) % all + 1
    }
}

fn price(part: u64) -> i64 {
    (90_000 + (part / 10) % 20_001 + 100 * (part % 1000)) as i64
}

/// Rows of a table in the form that COPY reads, with `|` between columns.
pub fn rows(table: &str, scale: f64, out: &mut dyn FnMut(String)) {
    let sizes = Sizes::at(scale);
    let seed = TABLES.iter().position(|name| *name == table).expect("a table of TPC-H") as u64;
    // Lines follow from their orders.
    let mut random = Random(if table == "lineitem" { 6 } else { seed } << 32);
    match table {
        "region" => {
            for (key, name) in REGIONS.into_iter().enumerate() {
                out(format!("{key}|{name}|{}", random.words(4, 10)));
            }
        }
        "nation" => {
            for (key, (name, region)) in NATIONS.into_iter().enumerate() {
                out(format!("{key}|{name}|{region}|{}", random.words(4, 10)));
            }
        }
        "supplier" => {
            for key in 1..=sizes.suppliers {
                let nation = random.below(25);
                let said = match random.below(2000) {
                    0 => "Customer slow Complaints",
                    1 => "Customer fine Recommends",
                    _ => "",
                };
                let (phone, balance) = (random.phone(nation), random.balance());
                let comment = format!("{}{said}", random.words(3, 6));
                out(format!("{key}|Supplier#{key:09}|street {key}|{nation}|{phone}|{balance}|{comment}"));
            }
        }
        "customer" => {
            for key in 1..=sizes.customers {
                let nation = random.below(25);
                let (phone, balance, segment) =
                    (random.phone(nation), random.balance(), random.of(&SEGMENTS));
                let comment = random.words(5, 9);
                out(format!(
                    "{key}|Customer#{key:09}|street {key}|{nation}|{phone}|{balance}|{segment}|{comment}"
                ));
            }
        }
        "part" => {
            for key in 1..=sizes.parts {
                let name: Vec<&str> = (0..5).map(|_| random.of(&COLORS)).collect();
                let maker = random.between(1, 5);
                let brand = 10 * maker + random.between(1, 5);
                let kind: Vec<&str> = TYPES.iter().map(|list| random.of(list)).collect();
                let container: Vec<&str> = CONTAINERS.iter().map(|list| random.of(list)).collect();
                let (size, price) = (random.between(1, 50), money(price(key)));
                let (name, kind, container) = (name.join(" "), kind.join(" "), container.join(" "));
                let (made, comment) = (format!("{maker}|Brand#{brand}"), random.words(1, 3));
                out(format!("{key}|{name}|Manufacturer#{made}|{kind}|{size}|{container}|{price}|{comment}"));
            }
        }
        "partsupp" => {
            for part in 1..=sizes.parts {
                for which in 0..4 {
                    let (there, cost) = (random.between(1, 9999), money(random.between(100, 100_000) as i64));
                    let supplier = sizes.supplier(part, which);
                    out(format!("{part}|{supplier}|{there}|{cost}|{}", random.words(8, 16)));
                }
            }
        }
        _ => orders(&mut random, &sizes, table == "orders", out),
    }
}

fn orders(random: &mut Random, sizes: &Sizes, wants_orders: bool, out: &mut dyn FnMut(String)) {
    for number in 0..sizes.orders {
        // Of each 32 keys 8 are used, and of three customers two order.
        let key = number / 8 * 32 + number % 8 + 1;
        let customer = match random.between(1, sizes.customers) {
            customer if customer % 3 == 0 => (customer % sizes.customers) + 1,
            customer => customer,
        };
        let day = random.below(LAST_ORDER + 1);
        let (priority, clerk) = (random.of(&PRIORITIES), random.between(1, 1000));
        let (mut total, mut open, lines) = (0, 0, random.between(1, 7));
        let comment = random.words(4, 9);
        for line in 1..=lines {
            let part = random.between(1, sizes.parts);
            let supplier = sizes.supplier(part, random.below(4));
            let (quantity, discount, tax) = (random.between(1, 50), random.below(11), random.below(9));
            let whole = quantity as i64 * price(part);
            let (ship, commit) = (day + random.between(1, 121), day + random.between(30, 90));
            let receipt = ship + random.between(1, 30);
            let flag = if receipt <= TODAY { random.of(&["R", "A"]) } else { "N" };
            let status = if ship > TODAY { "O" } else { "F" };
            let (how, by, words) = (random.of(&INSTRUCTIONS), random.of(&MODES), random.words(2, 5));
            total += whole * (100 + tax as i64) * (100 - discount as i64) / 10_000;
            open += u64::from(status == "O");
            if !wants_orders {
                let (ship, commit, receipt) = (date(ship), date(commit), date(receipt));
                let price = money(whole);
                out(format!(
                    "{key}|{part}|{supplier}|{line}|{quantity}|{price}|0.{discount:02}|0.{tax:02}|{flag}|\
                     {status}|{ship}|{commit}|{receipt}|{how}|{by}|{words}"
                ));
            }
        }
        if wants_orders {
            let status = if open == lines { "O" } else { ["F", "P"][usize::from(open > 0)] };
            let (day, total) = (date(day), money(total));
            out(format!("{key}|{customer}|{status}|{total}|{day}|{priority}|Clerk#{clerk:09}|0|{comment}"));
        }
    }
}
