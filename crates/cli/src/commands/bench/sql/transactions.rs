//! The five transactions (TPC-C 2.4 to 2.8), statement by statement, as a client without stored procedures
//! has to.

use liger_workload::tpcc::input::{
    DeliveryInput, Input, Line, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput, Who,
};
use tokio_postgres::{Client, Error, Row, Statement};

use super::decimal::{Cents, Decimal, Rate};
use super::statements::Statements;
use super::trouble::Trouble;

/// An order that a client has entered: warehouse, district, number.
pub type OrderId = (i32, i32, i32);

/// How a transaction ended that met no trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Committed; New-Orders have a number.
    Committed(Option<OrderId>),
    /// Rolled back because an item does not exist, as the specification wants one New-Order in a hundred.
    RolledBack,
}

/// A connection and its statements.
pub struct Terminal {
    pub client: Client,
    pub statements: Statements,
    /// What begins a transaction.
    pub begin: String,
}

/// A row that must be there.
fn there(row: Option<Row>, what: &str) -> Result<Row, Trouble> {
    row.ok_or_else(|| Trouble::Wrong(format!("{what}: there is no such row")))
}

fn number(row: &Row, column: usize) -> Result<i32, Trouble> {
    Ok(row.try_get(column)?)
}

impl Terminal {
    /// Runs one transaction, its commit included.
    pub async fn run(&self, input: &Input) -> Result<Done, Trouble> {
        self.client.batch_execute(&self.begin).await?;
        let order = match input {
            Input::NewOrder(input) => match self.new_order(input).await? {
                None => {
                    self.client.batch_execute("rollback").await?;
                    return Ok(Done::RolledBack);
                }
                order => order,
            },
            Input::Payment(input) => self.payment(input).await.map(|()| None)?,
            Input::OrderStatus(input) => self.order_status(input).await.map(|()| None)?,
            Input::Delivery(input) => self.delivery(input).await.map(|()| None)?,
            Input::StockLevel(input) => self.stock_level(input).await.map(|()| None)?,
        };
        // What happens now may have happened or not, where the answer does not arrive.
        let ended = self.client.batch_execute("commit").await;
        ended.map_err(|error| Trouble::of_commit(&error, order))?;
        Ok(Done::Committed(order))
    }

    async fn one(
        &self,
        statement: &Statement,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        Ok(self.client.query(statement, parameters).await?.into_iter().next())
    }

    /// The order's number; none if an item does not exist.
    async fn new_order(&self, input: &NewOrderInput) -> Result<Option<OrderId>, Trouble> {
        let all = &self.statements;
        let (w, d, c) = (i32::from(input.w), i32::from(input.d), input.c);
        let row = there(self.one(&all.warehouse_tax, &[&w]).await?, "warehouse")?;
        let w_tax: Rate = row.try_get(0)?;
        let row = there(self.one(&all.take_number, &[&w, &d]).await?, "district")?;
        let (o, d_tax): (i32, Rate) = (row.try_get(0)?, row.try_get(1)?);
        let row = there(self.one(&all.customer_terms, &[&w, &d, &c]).await?, "customer")?;
        let discount: Rate = row.try_get(0)?;
        let count = input.lines.len() as i32;
        let all_local = i32::from(input.lines.iter().all(|line| line.supply_w == input.w));
        self.client.execute(&all.insert_order, &[&w, &d, &o, &c, &count, &all_local]).await?;
        self.client.execute(&all.insert_new_order, &[&w, &d, &o]).await?;
        let mut sum = 0;
        for (at, line) in (1..).zip(&input.lines) {
            match self.line((w, d, o), at, line).await? {
                Some(amount) => sum += amount.0,
                None => return Ok(None),
            }
        }
        // What the terminal shows.
        let total = sum as f64 * (1.0 - discount.0 as f64 / 1e4) * (1.0 + (w_tax.0 + d_tax.0) as f64 / 1e4);
        std::hint::black_box(total);
        Ok(Some((w, d, o)))
    }

    async fn line(&self, (w, d, o): OrderId, at: i32, line: &Line) -> Result<Option<Cents>, Trouble> {
        let all = &self.statements;
        let Some(item) = self.one(&all.item, &[&line.item]).await? else { return Ok(None) };
        let price: Cents = item.try_get(0)?;
        let (supply, quantity) = (i32::from(line.supply_w), i32::from(line.quantity));
        let remote = i32::from(supply != w);
        let take = &all.take_stock[d as usize - 1];
        let stock = there(self.one(take, &[&quantity, &remote, &supply, &line.item]).await?, "stock")?;
        let (district, data): (&str, &str) = (stock.try_get(1)?, stock.try_get(2)?);
        let brand = data.contains("ORIGINAL") && item.try_get::<_, &str>(2)?.contains("ORIGINAL");
        std::hint::black_box(brand);
        let amount: Cents = Decimal(price.0 * i64::from(quantity));
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
            [&w, &d, &o, &at, &line.item, &supply, &quantity, &amount, &district];
        self.client.execute(&all.insert_line, &values).await?;
        Ok(Some(amount))
    }

    /// The customer's number: of several of one name the middle one, rounded up (2.5.2.2).
    async fn customer(&self, w: i32, d: i32, who: &Who) -> Result<i32, Trouble> {
        match who {
            Who::Number(number) => Ok(*number),
            Who::LastName(name) => {
                let named =
                    self.client.query(&self.statements.customers_named, &[&w, &d, &name.as_str()]).await?;
                let middle = named.len().div_ceil(2).saturating_sub(1);
                let row =
                    named.get(middle).ok_or_else(|| Trouble::Wrong(format!("nobody is called {name}")))?;
                number(row, 0)
            }
        }
    }

    async fn payment(&self, input: &PaymentInput) -> Result<(), Trouble> {
        let all = &self.statements;
        let (w, d) = (i32::from(input.w), i32::from(input.d));
        let (c_w, c_d) = (i32::from(input.c_w), i32::from(input.c_d));
        let amount: Cents = Decimal(input.amount_cents);
        let warehouse = there(self.one(&all.pay_warehouse, &[&amount, &w]).await?, "warehouse")?;
        let district = there(self.one(&all.pay_district, &[&amount, &w, &d]).await?, "district")?;
        let c = self.customer(c_w, c_d, &input.who).await?;
        let note = format!("{c} {c_d} {c_w} {d} {w} {}.{:02} ", amount.0 / 100, amount.0 % 100);
        there(self.one(&all.pay_customer, &[&amount, &note, &c_w, &c_d, &c]).await?, "customer")?;
        let data = format!("{}    {}", warehouse.try_get::<_, &str>(0)?, district.try_get::<_, &str>(0)?);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&c, &c_d, &c_w, &d, &w, &amount, &data];
        self.client.execute(&all.insert_history, &values).await?;
        Ok(())
    }

    async fn order_status(&self, input: &OrderStatusInput) -> Result<(), Trouble> {
        let all = &self.statements;
        let (w, d) = (i32::from(input.w), i32::from(input.d));
        let c = self.customer(w, d, &input.who).await?;
        there(self.one(&all.customer_status, &[&w, &d, &c]).await?, "customer")?;
        let order = there(self.one(&all.newest_order, &[&w, &d, &c]).await?, "order")?;
        let lines = self.client.query(&all.lines, &[&w, &d, &number(&order, 0)?]).await?;
        match lines.len() {
            5..=15 => Ok(()),
            count => Err(Trouble::Wrong(format!("an order has {count} lines"))),
        }
    }

    async fn delivery(&self, input: &DeliveryInput) -> Result<(), Trouble> {
        let all = &self.statements;
        let (w, carrier) = (i32::from(input.w), i32::from(input.carrier));
        for d in i32::from(input.first_d)..=i32::from(input.last_d) {
            let Some(oldest) = self.one(&all.oldest_new_order, &[&w, &d]).await? else { continue };
            let o = number(&oldest, 0)?;
            if self.client.execute(&all.delete_new_order, &[&w, &d, &o]).await? == 0 {
                // Below SERIALIZABLE another may have delivered it meanwhile.
                return Err(Trouble::Again("none".to_owned()));
            }
            let order = there(self.one(&all.deliver_order, &[&carrier, &w, &d, &o]).await?, "order")?;
            let mut sum = 0;
            for line in self.client.query(&all.deliver_lines, &[&w, &d, &o]).await? {
                sum += line.try_get::<_, Cents>(0)?.0;
            }
            let sum: Cents = Decimal(sum);
            self.client.execute(&all.deliver_customer, &[&sum, &w, &d, &number(&order, 0)?]).await?;
        }
        Ok(())
    }

    async fn stock_level(&self, input: &StockLevelInput) -> Result<(), Trouble> {
        let all = &self.statements;
        let (w, d) = (i32::from(input.w), i32::from(input.d));
        let next = number(&there(self.one(&all.next_number, &[&w, &d]).await?, "district")?, 0)?;
        let low = self.one(&all.low_stock, &[&w, &d, &(next - 20), &next, &input.threshold]).await?;
        there(low, "count")?.try_get::<_, i64>(0)?;
        Ok(())
    }
}
