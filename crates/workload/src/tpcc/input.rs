//! What the terminals ask for: the inputs of the five transactions (TPC-C 2.4.1 to 2.8.1), and the choices
//! that a run makes among definitions of the workload. Plain data; [`crate::tpcc::generate`] draws it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The five transaction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Enters an order (2.4).
    NewOrder,
    /// A customer pays (2.5).
    Payment,
    /// A customer asks for the last order (2.6).
    OrderStatus,
    /// The oldest order of each district is delivered (2.7).
    Delivery,
    /// How many recently sold items run low (2.8).
    StockLevel,
}

impl Kind {
    /// All five, in the specification's order.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }

    /// Cards of this type in a deck of 100.
    pub(super) const fn cards(self, mix: Mix) -> usize {
        match (mix, self) {
            (Mix::FirstTwo, Kind::NewOrder | Kind::Payment) => 50,
            (Mix::FirstTwo, _) => 0,
            (_, Kind::NewOrder) => 45,
            (_, Kind::Payment) => 43,
            _ => 4,
        }
    }
}

/// Whose definition of the transactions is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// The specification's.
    Spec,
    /// As the artifact of Tigon has it, for runs side by side: a Delivery serves one district (and still
    /// counts as a transaction), and remote customers are found by number only. Everything else is the
    /// specification's.
    Artifact,
    /// Half New-Orders and half Payments, otherwise the artifact's: the evaluation of Pasha (CIDR 2025).
    FirstTwo,
}

impl Mix {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mix::Spec => "spec",
            Mix::Artifact => "artifact",
            Mix::FirstTwo => "first-two",
        }
    }
}

/// Which share of the transactions touches another warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remote {
    /// The specification's: 1 % of order lines are supplied by another warehouse (so about 10 % of New-Orders
    /// touch one) and 15 % of Payments are by another warehouse's customer.
    Spec,
    /// Tigon's "x/y": `new_order` % of New-Orders have their first line, and no other, from another
    /// warehouse; `payment` % of Payments are by another warehouse's customer.
    Percent {
        /// Share of New-Orders, 0 to 100.
        new_order: u32,
        /// Share of Payments, 0 to 100.
        payment: u32,
    },
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Spec => f.write_str("spec"),
            Remote::Percent { new_order, payment } => write!(f, "{new_order}/{payment}"),
        }
    }
}

/// A remote share that is neither `spec` nor two percentages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("remote share \"{0}\": \"spec\" or two percentages like \"10/15\" are possible")]
pub struct BadRemote(String);

impl FromStr for Remote {
    type Err = BadRemote;

    fn from_str(text: &str) -> Result<Self, BadRemote> {
        let percent = |text: &str| text.parse().ok().filter(|percent| *percent <= 100);
        let two = |(x, y)| Some(Remote::Percent { new_order: percent(x)?, payment: percent(y)? });
        match text {
            "spec" => Ok(Remote::Spec),
            other => other.split_once('/').and_then(two).ok_or_else(|| BadRemote(other.to_owned())),
        }
    }
}

/// How a terminal names a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// By number.
    Number(i32),
    /// By last name: the middle one of all who bear it, in order of first names.
    LastName(String),
}

/// One line of an order to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The item; one that does not exist in the last line of an order to be rolled back.
    pub item: i32,
    /// The warehouse that supplies it.
    pub supply_w: i16,
    /// How many, 1 to 10.
    pub quantity: i16,
}

/// Input of a New-Order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderInput {
    /// Home warehouse.
    pub w: i16,
    /// District.
    pub d: i16,
    /// Customer.
    pub c: i32,
    /// 5 to 15 lines.
    pub lines: Vec<Line>,
    /// Date of entry, microseconds.
    pub entry_us: i64,
}

/// Input of a Payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentInput {
    /// Home warehouse, which receives the money.
    pub w: i16,
    /// District that receives the money.
    pub d: i16,
    /// The customer's warehouse.
    pub c_w: i16,
    /// The customer's district.
    pub c_d: i16,
    /// Which customer.
    pub who: Who,
    /// Cents, 100 to 500 000.
    pub amount_cents: i64,
    /// Date, microseconds.
    pub date_us: i64,
}

/// Input of an Order-Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// Home warehouse.
    pub w: i16,
    /// District.
    pub d: i16,
    /// Which customer.
    pub who: Who,
}

/// Input of a Delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryInput {
    /// Home warehouse.
    pub w: i16,
    /// First district to serve.
    pub first_d: i16,
    /// Last district to serve; all ten are served unless the mix is [`Mix::Artifact`].
    pub last_d: i16,
    /// Carrier, 1 to 10.
    pub carrier: i16,
    /// Date of delivery, microseconds.
    pub date_us: i64,
}

/// Input of a Stock-Level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevelInput {
    /// Home warehouse.
    pub w: i16,
    /// District.
    pub d: i16,
    /// Stock below this is low, 10 to 20.
    pub threshold: i32,
}

/// Input of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// See [`NewOrderInput`].
    NewOrder(NewOrderInput),
    /// See [`PaymentInput`].
    Payment(PaymentInput),
    /// See [`OrderStatusInput`].
    OrderStatus(OrderStatusInput),
    /// See [`DeliveryInput`].
    Delivery(DeliveryInput),
    /// See [`StockLevelInput`].
    StockLevel(StockLevelInput),
}

impl Input {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }

    /// True when it touches a warehouse other than its home.
    pub fn is_remote(&self) -> bool {
        match self {
            Input::NewOrder(order) => order.lines.iter().any(|line| line.supply_w != order.w),
            Input::Payment(payment) => payment.c_w != payment.w,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_shares_are_read_and_written() {
        let share = Remote::Percent { new_order: 60, payment: 90 };
        assert_eq!(("60/90".parse(), share.to_string()), (Ok(share), "60/90".to_owned()));
        assert_eq!("spec".parse(), Ok(Remote::Spec));
        for bad in ["", "60", "60/", "101/0", "-1/0", "Spec"] {
            assert_eq!(bad.parse::<Remote>(), Err(BadRemote(bad.to_owned())));
        }
    }
}
