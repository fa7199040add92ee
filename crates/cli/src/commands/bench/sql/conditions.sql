-- What must hold after a run (TPC-C 3.3.2, and more), and a query that counts where it does not: each is a
-- title of one line, and a query. {initial} and {delivered} stand for the orders that a district began with,
-- and those of them that were delivered.

-- condition 1: W_YTD is the sum of D_YTD
select count(*) from warehouse join (select d_w_id w, sum(d_ytd) s from district group by d_w_id) d on w
= w_id where w_ytd <> s;

-- condition 2: D_NEXT_O_ID - 1 is the largest O_ID and NO_O_ID
select count(*) from district left join (select o_w_id w, o_d_id d, max(o_id) m from orders group by 1,
2) o on o.w = d_w_id and o.d = d_id left join (select no_w_id w, no_d_id d, max(no_o_id) m from
new_order group by 1, 2) n on n.w = d_w_id and n.d = d_id where o.m is distinct from d_next_o_id - 1 or
n.m <> d_next_o_id - 1;

-- condition 3: undelivered orders of a district have no gap
select count(*) from (select max(no_o_id) - min(no_o_id) + 1 - count(*) gap from new_order group by
no_w_id, no_d_id) d where gap <> 0;

-- condition 4: the sum of O_OL_CNT is the number of lines
select count(*) from (select o_w_id w, o_d_id d, sum(o_ol_cnt) n from orders group by 1, 2) o full join
(select ol_w_id w, ol_d_id d, count(*) n from order_line group by 1, 2) l on l.w = o.w and l.d = o.d
where o.n is distinct from l.n;

-- condition 5: an order has no carrier exactly if it is in NEW-ORDER
select count(*) from orders full join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id =
o_id where o_id is null or (o_carrier_id is null) <> (no_o_id is not null);

-- condition 6: an order has O_OL_CNT lines, numbered from 1
select count(*) from orders full join (select ol_w_id w, ol_d_id d, ol_o_id o, count(*) n,
max(ol_number) m from order_line group by 1, 2, 3) l on w = o_w_id and d = o_d_id and o = o_id where
o_ol_cnt is distinct from n or m <> n;

-- condition 7: a line has no delivery date exactly if its order has no carrier
select count(*) from order_line join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
where (ol_delivery_d is null) <> (o_carrier_id is null);

-- condition 8: W_YTD is the sum of H_AMOUNT
select count(*) from warehouse left join (select h_w_id w, sum(h_amount) s from history group by 1) h on
w = w_id where w_ytd is distinct from s;

-- condition 9: D_YTD is the sum of H_AMOUNT
select count(*) from district left join (select h_w_id w, h_d_id d, sum(h_amount) s from history group
by 1, 2) h on w = d_w_id and d = d_id where d_ytd is distinct from s;

-- condition 10: C_BALANCE is the sum of delivered lines less the sum of payments
select count(*) from customer left join (select o_w_id w, o_d_id d, o_c_id c, sum(ol_amount) s from
orders join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ol_delivery_d
is not null group by 1, 2, 3) l on l.w = c_w_id and l.d = c_d_id and l.c = c_id left join (select
h_c_w_id w, h_c_d_id d, h_c_id c, sum(h_amount) s from history group by 1, 2, 3) h on h.w = c_w_id and
h.d = c_d_id and h.c = c_id where c_balance <> coalesce(l.s, 0) - coalesce(h.s, 0);

-- condition 11: delivered orders of a district are the initial ones and the sum of C_DELIVERY_CNT
select count(*) from (select c_w_id w, c_d_id d, sum(c_delivery_cnt) n from customer group by 1, 2) c
join (select o_w_id w, o_d_id d, count(o_carrier_id) n from orders group by 1, 2) o on o.w = c.w and o.d
= c.d where o.n <> c.n + {delivered};

-- condition 12: C_BALANCE + C_YTD_PAYMENT is the sum of delivered lines
select count(*) from customer left join (select o_w_id w, o_d_id d, o_c_id c, sum(ol_amount) s from
orders join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ol_delivery_d
is not null group by 1, 2, 3) l on w = c_w_id and d = c_d_id and c = c_id where c_balance +
c_ytd_payment <> coalesce(s, 0);

-- order numbers of a district have no gap
select count(*) from district left join (select o_w_id w, o_d_id d, count(*) n from orders group by 1,
2) o on w = d_w_id and d = d_id where n is distinct from d_next_o_id - 1;

-- customer: C_YTD_PAYMENT and C_PAYMENT_CNT are those of HISTORY
select count(*) from customer left join (select h_c_w_id w, h_c_d_id d, h_c_id c, sum(h_amount) s,
count(*) n from history group by 1, 2, 3) h on w = c_w_id and d = c_d_id and c = c_id where
c_ytd_payment is distinct from s or c_payment_cnt is distinct from n;

-- customer: C_DELIVERY_CNT is the number of orders delivered in the run
select count(*) from customer left join (select o_w_id w, o_d_id d, o_c_id c, count(*) n from orders
where o_carrier_id is not null and o_id > {delivered} group by 1, 2, 3) o on w = c_w_id and d = c_d_id
and c = c_id where c_delivery_cnt <> coalesce(n, 0);

-- stock: S_YTD, S_ORDER_CNT and S_REMOTE_CNT are those of the run's lines
select count(*) from stock left join (select ol_supply_w_id w, ol_i_id i, sum(ol_quantity) q, count(*)
n, count(nullif(ol_w_id, ol_supply_w_id)) r from order_line where ol_o_id > {initial} group by 1, 2) l
on w = s_w_id and i = s_i_id where s_ytd <> coalesce(q, 0) or s_order_cnt <> coalesce(n, 0) or
s_remote_cnt <> coalesce(r, 0);

-- line: OL_AMOUNT of the run's lines is OL_QUANTITY times I_PRICE
select count(*) from order_line left join item on i_id = ol_i_id where ol_o_id > {initial} and ol_amount
is distinct from ol_quantity * i_price;

-- order: O_ALL_LOCAL is 1 exactly if every line is supplied by its warehouse
select count(*) from orders join (select ol_w_id w, ol_d_id d, ol_o_id o, count(nullif(ol_w_id,
ol_supply_w_id)) r from order_line group by 1, 2, 3) l on w = o_w_id and d = o_d_id and o = o_id where
(o_all_local = 1) <> (r = 0);
