create index nation_region on nation (n_regionkey);
create index supplier_nation on supplier (s_nationkey);
create index customer_nation on customer (c_nationkey);
create index partsupp_supplier on partsupp (ps_suppkey);
create index orders_customer on orders (o_custkey);
create index lineitem_part on lineitem (l_partkey, l_suppkey);
analyze;
