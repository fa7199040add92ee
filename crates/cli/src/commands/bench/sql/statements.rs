//! The statements of the five transactions, prepared.

use tokio_postgres::{Client, Error, Statement};

/// Districts, each of which has its own column in STOCK.
const DISTRICTS: usize = 10;

macro_rules! statements {
    ($($(#[$doc:meta])+ $name:ident = $sql:literal,)*) => {
        /// A connection's prepared statements.
        pub struct Statements {
            $($(#[$doc])+ pub $name: Statement,)*
            /// Takes so many (1) of a stock row (3, 4), for another warehouse or not (2: 1 or 0); by district
            /// less one.
            pub take_stock: Vec<Statement>,
        }

        impl Statements {
            /// Prepares all of them.
            pub async fn prepare(client: &Client) -> Result<Statements, Error> {
                let mut take_stock = Vec::new();
                for district in 1..=DISTRICTS {
                    take_stock.push(client.prepare(&take_stock_of(district)).await?);
                }
                Ok(Statements { $($name: client.prepare($sql).await?,)* take_stock })
            }
        }
    };
}

fn take_stock_of(district: usize) -> String {
    format!(
        "update stock set s_quantity = case when s_quantity >= $1 + 10 then s_quantity - $1 else \
         s_quantity - $1 + 91 end, s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = \
         s_remote_cnt + $2 where s_w_id = $3 and s_i_id = $4 returning s_quantity, \
         s_dist_{district:02}, s_data"
    )
}

statements! {
    /// New-Order: the warehouse's tax.
    warehouse_tax = "select w_tax from warehouse where w_id = $1",
    /// New-Order: takes an order number.
    take_number =
        "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 returning \
         d_next_o_id - 1, d_tax",
    /// New-Order: the customer.
    customer_terms =
        "select c_discount, c_last, c_credit from customer where c_w_id = $1 and c_d_id = $2 and c_id = \
         $3",
    /// New-Order.
    insert_order =
        "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) values \
         ($1, $2, $3, $4, localtimestamp, $5, $6)",
    /// New-Order.
    insert_new_order = "insert into new_order (no_w_id, no_d_id, no_o_id) values ($1, $2, $3)",
    /// New-Order, each line.
    item = "select i_price, i_name, i_data from item where i_id = $1",
    /// New-Order, each line.
    insert_line =
        "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
         ol_quantity, ol_amount, ol_dist_info) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    /// Payment.
    pay_warehouse =
        "update warehouse set w_ytd = w_ytd + $1 where w_id = $2 returning w_name, w_street_1, \
         w_street_2, w_city, w_state, w_zip",
    /// Payment.
    pay_district =
        "update district set d_ytd = d_ytd + $1 where d_w_id = $2 and d_id = $3 returning d_name, \
         d_street_1, d_street_2, d_city, d_state, d_zip",
    /// Payment, Order-Status: customers of a name.
    customers_named =
        "select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first",
    /// Payment. Bad credit is written down (4).
    pay_customer =
        "update customer set c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
         c_payment_cnt = c_payment_cnt + 1, c_data = case when c_credit = 'BC' then substr($2::text || \
         c_data, 1, 500) else c_data end where c_w_id = $3 and c_d_id = $4 and c_id = $5 returning \
         c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, \
         c_credit_lim, c_discount, c_balance, substr(c_data, 1, 200)",
    /// Payment.
    insert_history =
        "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         values ($1, $2, $3, $4, $5, localtimestamp, $6, $7)",
    /// Order-Status.
    customer_status =
        "select c_first, c_middle, c_last, c_balance from customer where c_w_id = $1 and c_d_id = $2 \
         and c_id = $3",
    /// Order-Status.
    newest_order =
        "select o_id, o_carrier_id, o_entry_d from orders where o_w_id = $1 and o_d_id = $2 and o_c_id \
         = $3 order by o_id desc limit 1",
    /// Order-Status.
    lines =
        "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line where \
         ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3",
    /// Delivery, each district.
    oldest_new_order =
        "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1",
    /// Delivery, each district.
    delete_new_order =
        "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3",
    /// Delivery, each district.
    deliver_order =
        "update orders set o_carrier_id = $1 where o_w_id = $2 and o_d_id = $3 and o_id = $4 returning \
         o_c_id",
    /// Delivery, each district.
    deliver_lines =
        "update order_line set ol_delivery_d = localtimestamp where ol_w_id = $1 and ol_d_id = $2 and \
         ol_o_id = $3 returning ol_amount",
    /// Delivery, each district.
    deliver_customer =
        "update customer set c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 where \
         c_w_id = $2 and c_d_id = $3 and c_id = $4",
    /// Stock-Level.
    next_number = "select d_next_o_id from district where d_w_id = $1 and d_id = $2",
    /// Stock-Level.
    low_stock =
        "select count(distinct s_i_id) from order_line join stock on s_w_id = ol_w_id and s_i_id = \
         ol_i_id where ol_w_id = $1 and ol_d_id = $2 and ol_o_id >= $3 and ol_o_id < $4 and s_quantity \
         < $5",
}
