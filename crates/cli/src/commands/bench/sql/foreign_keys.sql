-- Declared when the rows are there, if they are wanted.

alter table district add foreign key (d_w_id) references warehouse;
alter table customer add foreign key (c_w_id, c_d_id) references district;
alter table history add foreign key (h_c_w_id, h_c_d_id, h_c_id) references customer;
alter table new_order add foreign key (no_w_id, no_d_id, no_o_id) references orders;
alter table orders add foreign key (o_w_id, o_d_id, o_c_id) references customer;
alter table order_line add foreign key (ol_w_id, ol_d_id, ol_o_id) references orders;
alter table order_line add foreign key (ol_supply_w_id, ol_i_id) references stock;
alter table stock add foreign key (s_i_id) references item;
