// Hibernate, by its own interface and as plain JPA. Arguments: the ports of two hosts. Every check has a session of its own.

import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.LockModeType;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.Persistence;
import jakarta.persistence.PersistenceException;
import jakarta.persistence.criteria.CriteriaBuilder;
import jakarta.persistence.criteria.CriteriaQuery;
import jakarta.persistence.criteria.CriteriaUpdate;
import jakarta.persistence.criteria.Join;
import jakarta.persistence.criteria.Root;
import jakarta.persistence.criteria.Subquery;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.hibernate.ScrollMode;
import org.hibernate.ScrollableResults;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.StatelessSession;
import org.hibernate.exception.ConstraintViolationException;

final class Orm {
    interface Check {
        void run(Session s) throws Exception;
    }

    static final String SCHEMA = "jpa";
    static String[] ports;
    static EntityManagerFactory first;
    static EntityManagerFactory second;

    static String url(int host) {
        return "jdbc:postgresql://127.0.0.1:" + ports[host] + "/postgres?reWriteBatchedInserts=true&stringtype=unspecified";
    }

    static EntityManagerFactory open(String unit, int host, String action) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("jakarta.persistence.jdbc.url", url(host));
        settings.put("jakarta.persistence.jdbc.user", "postgres");
        settings.put("hibernate.default_schema", SCHEMA);
        settings.put("hibernate.hbm2ddl.auto", action);
        settings.put("hibernate.jdbc.batch_size", "30");
        settings.put("hibernate.order_inserts", "true");
        settings.put("hibernate.order_updates", "true");
        settings.put("hibernate.jdbc.time_zone", "UTC");
        settings.put("hibernate.connection.pool_size", "5");
        return Persistence.createEntityManagerFactory(unit, settings);
    }

    static void same(Object seen, Object expected) {
        if (!Objects.deepEquals(seen, expected)) {
            throw new AssertionError("expected " + text(expected) + ", but there is " + text(seen));
        }
    }

    static String text(Object value) {
        return value instanceof Object[] many ? Arrays.deepToString(many) : String.valueOf(value);
    }

    static void sql(String... statements) throws SQLException {
        try (Connection c = DriverManager.getConnection(url(0), "postgres", ""); Statement s = c.createStatement()) {
            for (String statement : statements) s.execute(statement);
        }
    }

    static String explained(Throwable error) {
        StringBuilder text = new StringBuilder(String.valueOf(error.getMessage()));
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) text.insert(0, cause.getMessage() + ": ");
        return text.substring(0, Math.min(text.length(), 600)).replace('\n', ' ');
    }

    // The SQLSTATE at the root of what a body ends with.
    static String state(Runnable body) {
        try {
            body.run();
            return "no error";
        } catch (RuntimeException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof SQLException known) return known.getSQLState();
            }
            return error.toString();
        }
    }

    static void within(EntityManagerFactory factory, Consumer<Session> body) {
        try (EntityManager manager = factory.createEntityManager()) {
            manager.getTransaction().begin();
            try {
                body.accept(manager.unwrap(Session.class));
                manager.getTransaction().commit();
            } catch (RuntimeException | Error error) {
                if (manager.getTransaction().isActive()) manager.getTransaction().rollback();
                throw error;
            }
        }
    }

    static long number(Session s, String query) {
        return s.createSelectionQuery(query, Long.class).getSingleResult();
    }

    static void schema(Session none) throws Exception {
        sql("drop schema if exists " + SCHEMA + " cascade", "create schema " + SCHEMA);
        first = open("shop", 0, "create");
        open("shop", 1, "validate").close();
        open("shop", 1, "update").close();
        sql("alter table " + SCHEMA + ".films rename column minutes to hours");
        String ended = "nothing is missing";
        try {
            open("shop", 1, "validate").close();
        } catch (RuntimeException error) {
            ended = explained(error);
        }
        same(ended.contains("missing column [minutes] in table [films]"), true);
        sql("alter table " + SCHEMA + ".films rename column hours to minutes");
        second = open("shop", 1, "validate");
    }

    static void types(Session s) {
        Shop.Author author = new Shop.Author("types");
        author.before = Shop.Mood.GREAT;
        author.named = Shop.Mood.SAD;
        author.balance = new BigDecimal("1234567890.12");
        author.born = LocalDate.of(2024, 2, 29);
        author.wakes = LocalTime.of(7, 30, 1);
        author.local = LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999_999_000);
        author.instant = Instant.parse("2024-03-31T01:30:00.123456Z");
        author.zoned = OffsetDateTime.parse("2024-03-31T01:30:00+02:00");
        author.took = Duration.ofSeconds(90, 5000);
        author.ratio = 0.1;
        author.small = 1.5f;
        author.tiny = Short.MIN_VALUE;
        author.least = Byte.MIN_VALUE;
        author.letter = 'ß';
        author.key = new UUID(1, 2);
        author.bytes = new byte[] {0, 1, -1};
        author.remark = "grüß 世界\n\\'";
        author.data.put("list", List.of(1, "x", Map.of("deep", true)));
        author.words.addAll(List.of("a", "b \"c\"", ""));
        author.numbers = new int[] {1, -2};
        author.address = new Shop.Address("a street", "a city");
        author.others.addAll(Set.of("x", "y"));
        s.persist(author);
        s.getTransaction().commit();
        within(second, other -> {
            Shop.Author found = other.find(Shop.Author.class, author.id);
            same(List.of(found.mood, found.before, found.named, found.balance, found.born, found.wakes, found.local, found.instant),
                    List.of(Shop.Mood.OK, author.before, author.named, author.balance, author.born, author.wakes, author.local, author.instant));
            same(found.zoned.toInstant(), author.zoned.toInstant());
            same(List.of(found.took, found.ratio, found.small, found.tiny, found.least, found.letter, found.key, found.remark, found.active),
                    List.of(author.took, 0.1, 1.5f, Short.MIN_VALUE, Byte.MIN_VALUE, 'ß', author.key, author.remark, true));
            same(new Object[] {found.bytes, found.numbers, found.words}, new Object[] {author.bytes, author.numbers, author.words});
            same(List.of(found.data, found.address.city, new ArrayList<>(found.others)), List.of(author.data, "a city", List.of("x", "y")));
            same(found.made == null, false);
        });
    }

    static void associations(Session s) {
        Shop.Author author = new Shop.Author("writer");
        Shop.Tag good = new Shop.Tag("good");
        Shop.Tag old = new Shop.Tag("old");
        author.add("one", "1.50").tags.addAll(Set.of(good, old));
        author.add("two", "2.50").tags.add(good);
        author.add("three", "3.50");
        s.persist(author);
        s.flush();
        same(author.books.get(0).id, 100L);
        s.persist(new Shop.Line(author.books.get(0), 1, "it was a dark night"));
        s.persist(new Shop.Line(author.books.get(0), 2, "and stormy"));
        s.getTransaction().commit();
        within(second, other -> {
            Shop.Author found = other.createNamedQuery("byName", Shop.Author.class).setParameter("name", "writer").getSingleResult();
            same(found.books.stream().map(book -> book.title + book.tags.size()).toList(), List.of("one2", "three0", "two1"));
            found.books.removeIf(book -> book.title.equals("three"));
            found.books.get(0).tags.removeIf(tag -> tag.name.equals("old"));
            Shop.Line line = other.find(Shop.Line.class, new Shop.LineId(found.books.get(0).id, 2));
            same(line.text, "and stormy");
            other.remove(line);
        });
        s.clear();
        s.getTransaction().begin();
        same(number(s, "select count(*) from Book"), 2L);
        same(number(s, "select count(*) from Line"), 1L);
        List<Shop.Book> books = s.createSelectionQuery(
                "select distinct b from Book b join fetch b.author left join fetch b.tags order by b.title", Shop.Book.class).getResultList();
        same(books.stream().map(book -> book.author.name + book.tags.size()).toList(), List.of("writer1", "writer1"));
        Shop.Tag kept = s.createSelectionQuery("from Tag where name = 'good'", Shop.Tag.class).getSingleResult();
        same(kept.books.size(), 2);
        s.getTransaction().commit();
        same(state(() -> within(first, other -> other.remove(other.find(Shop.Book.class, books.get(0).id)))), "23503");
    }

    static void batches(Session s) {
        Shop.Author author = new Shop.Author("many");
        s.persist(author);
        for (int n = 0; n < 300; n++) {
            Shop.Book book = author.add("book " + n, n + ".25");
            book.sold = n;
            if (n % 60 == 59) s.flush();
        }
        s.flush();
        for (Shop.Book book : author.books) book.sold += 1;
        s.flush();
        s.clear();
        same(number(s, "select sum(b.sold) from Book b where b.author.name = 'many'"), 45150L);
        for (int n = 0; n < 20; n++) {
            Shop.Author several = new Shop.Author("several " + n);
            several.key = UUID.randomUUID();
            s.persist(several);
        }
        s.flush();
        same(number(s, "select count(*) from Author where name like 'several %'"), 20L);
    }

    static void versions(Session s) {
        Shop.Author mine = s.createNamedQuery("byName", Shop.Author.class).setParameter("name", "writer").getSingleResult();
        int before = mine.version;
        s.getTransaction().commit();
        within(second, other -> other.find(Shop.Author.class, mine.id).mood = Shop.Mood.GREAT);
        s.getTransaction().begin();
        mine.mood = Shop.Mood.SAD;
        boolean refused = false;
        try {
            s.getTransaction().commit();
        } catch (PersistenceException error) {
            refused = error instanceof OptimisticLockException || error.getCause() instanceof OptimisticLockException;
        }
        same(refused, true);
        within(first, other -> {
            Shop.Author now = other.find(Shop.Author.class, mine.id, LockModeType.OPTIMISTIC_FORCE_INCREMENT);
            same(List.of(now.version, now.mood), List.of(before + 1, Shop.Mood.GREAT));
        });
        within(first, other -> same(other.find(Shop.Author.class, mine.id).version, before + 2));
    }

    static List<?> hql(Session s, String query) {
        return s.createSelectionQuery(query, Object[].class).getResultList().stream().map(Arrays::asList).toList();
    }

    static void hqlQueries(Session s) {
        same(hql(s, "select a.name, count(b), sum(b.price), max(b.sold) from Author a join a.books b group by a.name having count(b) > 1 order by a.name"),
                List.of(List.of("many", 300L, new BigDecimal("44925.00"), 300), List.of("writer", 2L, new BigDecimal("4.00"), 0)));
        same(hql(s, "select a.name, (select count(*) from Book b where b.author = a) from Author a where exists (from Book b where b.author = a) order by 1"),
                List.of(List.of("many", 300L), List.of("writer", 2L)));
        same(hql(s, "select b.title, case when b.price > 2 then 'dear' else 'cheap' end from Book b where b.author.name = 'writer' order by b.id"),
                List.of(List.of("one", "cheap"), List.of("two", "dear")));
        same(hql(s, "select b.title, rank() over (partition by b.author order by b.sold desc), lag(b.sold) over (order by b.sold) from Book b"
                + " where b.author.name = 'many' order by b.sold desc fetch first 2 rows only"),
                List.of(List.of("book 299", 1L, 299), List.of("book 298", 2L, 298)));
        same(hql(s, "with few as (select b.title as t, b.sold as n from Book b where b.sold between 5 and 7) select f.t, f.n from few f order by f.n"),
                List.of(List.of("book 4", 5), List.of("book 5", 6), List.of("book 6", 7)));
        same(hql(s, "select upper(a.name) || '!', length(a.name), year(a.born), extract(month from a.born), a.born + 1 day, cast(a.balance as string),"
                + " coalesce(a.remark, ''), substring(a.name, 2, 3), locate('p', a.name), a.address.city from Author a where a.name = 'types'"),
                List.of(List.of("TYPES!", 5, 2024, 2, LocalDate.of(2024, 3, 1), "1234567890.12", "grüß 世界\n\\'", "ype", 3, "a city")));
        same(number(s, "select count(*) from Author a where 'x' member of a.others and a.books is empty and size(a.others) = 2"), 1L);
        same(number(s, "select count(*) from Author a where a.name ilike 'SEVERAL %' and a.mood in (OK, SAD) and a.named is null"), 20L);
        same(number(s, "select count(*) from Author a where array_contains(a.words, 'a') and array_length(a.words) = 3"), 1L);
        same(number(s, "select count(*) from (select b.title as t from Book b union all select a.name as t from Author a) x"), 325L);
        same(s.createSelectionQuery("select listagg(b.title, ',') within group (order by b.title) from Book b where b.author.name = 'writer'",
                String.class).getSingleResult(), "one,two");
        same(s.createSelectionQuery("select new map(t.name as name) from Tag t order by name limit 1", Map.class).getSingleResult(), Map.of("name", "good"));
    }

    static void hqlChanges(Session s) {
        same(s.createMutationQuery("update Book b set b.sold = b.sold * 2, b.price = b.price + 1 where b.sold > :n").setParameter("n", 290).executeUpdate(), 10);
        same(s.createMutationQuery("update versioned Author a set a.ratio = 2 where a.name like 'several 1%'").executeUpdate(), 11);
        same(s.createMutationQuery("delete Book b where b.sold > 500 and not exists (from Line l where l.book = b)").executeUpdate(), 10);
        same(s.createMutationQuery("insert into Tag (id, name) select a.key, a.name from Author a where a.name like 'several 1_'").executeUpdate(), 10);
        String upsert = "insert into Tag (id, name) values (:id, :name) on conflict (name) do update set name = excluded.name || '!'";
        same(s.createMutationQuery(upsert).setParameter("id", UUID.randomUUID()).setParameter("name", "good").executeUpdate(), 1);
        same(number(s, "select count(*) from Tag where name = 'good!'"), 1L);
        same(s.createMutationQuery(upsert).setParameter("id", UUID.randomUUID()).setParameter("name", "new").executeUpdate(), 1);
        same(number(s, "select count(*) from Tag"), 13L);
        s.getTransaction().rollback();
        s.getTransaction().begin();
        same(number(s, "select count(*) from Tag"), 2L);
    }

    static void criteria(Session s) {
        CriteriaBuilder b = s.getCriteriaBuilder();
        CriteriaQuery<Object[]> query = b.createQuery(Object[].class);
        Root<Shop.Author> author = query.from(Shop.Author.class);
        Join<Shop.Author, Shop.Book> book = author.join("books");
        query.multiselect(author.get("name"), b.count(book), b.avg(book.get("sold")));
        query.where(b.and(b.like(author.get("name"), "m%"), b.between(book.get("sold"), 1, 100), b.not(book.get("title").in("book 0", "book 1"))));
        query.groupBy(author.get("name")).orderBy(b.desc(author.get("name")));
        same(s.createQuery(query).getResultList().get(0), new Object[] {"many", 98L, 51.5});
        CriteriaQuery<Shop.Author> some = b.createQuery(Shop.Author.class);
        Root<Shop.Author> root = some.from(Shop.Author.class);
        Subquery<Long> inner = some.subquery(Long.class);
        Root<Shop.Book> dear = inner.from(Shop.Book.class);
        inner.select(dear.get("author").get("id")).where(b.gt(dear.get("price"), 100));
        same(s.createQuery(some.where(root.get("id").in(inner))).getResultList().stream().map(a -> a.name).toList(), List.of("many"));
        CriteriaUpdate<Shop.Book> update = b.createCriteriaUpdate(Shop.Book.class);
        update.set("sold", 0).where(b.equal(update.from(Shop.Book.class).get("title"), "one"));
        same(s.createMutationQuery(update).executeUpdate(), 1);
    }

    static void pages(Session s) throws Exception {
        String query = "from Book b where b.author.name = 'many' order by b.sold";
        List<Shop.Book> page = s.createSelectionQuery(query, Shop.Book.class).setFirstResult(20).setMaxResults(10).getResultList();
        same(List.of(page.size(), page.get(0).sold), List.of(10, 21));
        int sum = 0;
        try (ScrollableResults<Shop.Book> rows = s.createSelectionQuery(query, Shop.Book.class).setFetchSize(50).scroll(ScrollMode.FORWARD_ONLY)) {
            while (rows.next()) sum += rows.get().sold;
        }
        try (Stream<Shop.Book> rows = s.createSelectionQuery(query, Shop.Book.class).setFetchSize(7).getResultStream()) {
            same(rows.limit(20).mapToInt(book -> book.sold).sum(), 210);
        }
        same(sum, 45150);
        same(s.createSelectionQuery(query, Shop.Book.class).getResultCount(), 300L);
        same(s.createSelectionQuery("select a from Author a left join fetch a.books where a.name = 'writer'", Shop.Author.class).getResultList().size(), 1);
    }

    static void nativeQueries(Session s) {
        List<Shop.Book> books = s.createNativeQuery("select b.* from jpa.books b where b.sold between ?1 and ?2 order by b.id", Shop.Book.class)
                .setParameter(1, 3).setParameter(2, 5).getResultList();
        same(books.stream().map(book -> book.title).toList(), List.of("book 2", "book 3", "book 4"));
        Object[] row = s.createNativeQuery("select count(*), array_agg(title order by title), max(price) from {h-schema}books where title = any(:some)", Object[].class)
                .setParameter("some", new String[] {"one", "two"}).getSingleResult();
        same(row, new Object[] {2L, new String[] {"one", "two"}, new BigDecimal("2.50")});
        same(s.createNativeQuery("select data -> 'list' ->> 1 from jpa.authors where data @> cast(:part as jsonb)", String.class)
                .setParameter("part", "{\"list\": [1]}").getSingleResult(), "x");
        same(s.createNativeMutationQuery("update jpa.books set sold = sold where id in (:ids)").setParameter("ids", List.of(100L, 150L)).executeUpdate() > 0, true);
    }

    static void locks(Session s) {
        long id = s.createNamedQuery("byName", Shop.Author.class).setParameter("name", "writer").getSingleResult().id;
        s.getTransaction().commit();
        s.clear();
        s.getTransaction().begin();
        Shop.Author mine = s.find(Shop.Author.class, id, LockModeType.PESSIMISTIC_WRITE);
        Map<String, Object> now = Map.of("jakarta.persistence.lock.timeout", 0);
        same(state(() -> within(first, other -> other.find(Shop.Author.class, id, LockModeType.PESSIMISTIC_WRITE, now))), "55P03");
        same(state(() -> within(second, other -> other.find(Shop.Author.class, id, LockModeType.PESSIMISTIC_READ, now))), "55P03");
        mine.mood = Shop.Mood.OK;
        s.getTransaction().commit();
        within(second, other -> {
            other.lock(other.find(Shop.Author.class, id), LockModeType.PESSIMISTIC_FORCE_INCREMENT);
            List<Shop.Book> books = other.createSelectionQuery("from Book b where b.author.id = :id", Shop.Book.class).setParameter("id", id)
                    .setLockMode(LockModeType.PESSIMISTIC_READ).getResultList();
            same(books.size(), 2);
        });
    }

    static void savepoints(Session s) {
        Shop.Author author = new Shop.Author("kept");
        s.persist(author);
        s.flush();
        s.doWork(c -> {
            Savepoint savepoint = c.setSavepoint("s");
            try (Statement inner = c.createStatement()) {
                inner.execute("insert into jpa.tags values (gen_random_uuid(), 'lost')");
                try {
                    inner.execute("insert into jpa.tags values (gen_random_uuid(), 'good')");
                } catch (SQLException error) {
                    same(error.getSQLState(), "23505");
                }
            }
            c.rollback(savepoint);
        });
        same(number(s, "select count(*) from Tag where name = 'lost'"), 0L);
        s.getTransaction().commit();
        s.getTransaction().begin();
        s.createMutationQuery("delete Author where name = 'kept'").executeUpdate();
        s.getTransaction().rollback();
        s.getTransaction().begin();
        same(number(s, "select count(*) from Author where name = 'kept'"), 1L);
    }

    static void inheritance(Session s) {
        for (int n = 0; n < 10; n++) {
            Shop.Film film = new Shop.Film();
            film.name = "film " + n;
            film.minutes = 60 + n;
            Shop.Song song = new Shop.Song();
            song.name = "song " + n;
            song.singer = "nobody";
            s.persist(film);
            s.persist(song);
        }
        s.flush();
        s.clear();
        List<Shop.Item> items = s.createSelectionQuery("from Item i order by i.name", Shop.Item.class).getResultList();
        same(List.of(items.size(), items.get(3) instanceof Shop.Film f ? f.minutes : 0, items.get(12) instanceof Shop.Song), List.of(20, 63, true));
        same(number(s, "select count(*) from Item i where type(i) = Film and treat(i as Film).minutes > 65"), 4L);
        same(s.createMutationQuery("update Film f set f.minutes = f.minutes + 1, f.stock = 5 where f.name < 'film 5'").executeUpdate(), 5);
        same(s.createMutationQuery("delete from Song g where g.name > 'song 4'").executeUpdate(), 5);
        same(number(s, "select count(*) from Item where stock = 5 or singer is not null".replace("singer", "name")), 15L);
        same(number(s, "select sum(minutes) from Film where stock = 5"), 315L);
    }

    static void withoutState(Session none) {
        try (StatelessSession s = first.unwrap(SessionFactory.class).openStatelessSession()) {
            s.setJdbcBatchSize(0);
            s.beginTransaction();
            Shop.Tag tag = new Shop.Tag("stateless");
            s.insert(tag);
            tag.name = "changed";
            s.update(tag);
            same(s.createSelectionQuery("select id from Tag where name = 'changed'", UUID.class).getResultList(), List.of(tag.id));
            s.delete(tag);
            s.getTransaction().rollback();
        }
    }

    static void violations(Session none) {
        Map<String, Consumer<Session>> broken = new LinkedHashMap<>();
        broken.put("23505", s -> s.persist(new Shop.Author("types")));
        broken.put("23514", s -> s.createMutationQuery("update Author set balance = -1 where name = 'types'").executeUpdate());
        broken.put("23502", s -> s.createNativeMutationQuery("insert into jpa.books (id) values (1)").executeUpdate());
        broken.put("23503", s -> s.createNativeMutationQuery("insert into jpa.lines values (1, 99999, 'x')").executeUpdate());
        broken.put("22001", s -> s.persist(new Shop.Author("x".repeat(41))));
        broken.forEach((code, body) -> same(state(() -> within(first, body)), code));
        String constraint = "none";
        try {
            within(first, broken.get("23514"));
        } catch (ConstraintViolationException error) {
            constraint = error.getConstraintName();
        }
        same(constraint, "balance_ok");
    }

    static void conflicts(Session s) throws Exception {
        Shop.Item item = new Shop.Film();
        s.persist(item);
        s.getTransaction().commit();
        List<Thread> threads = new ArrayList<>();
        List<String> ends = new ArrayList<>();
        for (EntityManagerFactory factory : List.of(first, second)) {
            threads.add(new Thread(() -> {
                for (int n = 0; n < 20; n++) {
                    String end;
                    do {
                        end = state(() -> within(factory, own -> {
                            own.doWork(c -> c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE));
                            own.find(Shop.Item.class, item.id).stock += 1;
                        }));
                    } while (end.equals("40001"));
                    synchronized (ends) {
                        ends.add(end);
                    }
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        same(Set.copyOf(ends), Set.of("no error"));
        s.clear();
        s.getTransaction().begin();
        same(s.find(Shop.Item.class, item.id).stock, 40);
    }

    static void update(Session none) throws Exception {
        open("wider", 1, "update").close();
        try (EntityManagerFactory wider = open("wider", 0, "validate")) {
            within(wider, s -> {
                Wider.Shelf shelf = new Wider.Shelf();
                s.persist(shelf);
                Wider.Author author = s.createSelectionQuery("from Author where name = 'writer'", Wider.Author.class).getSingleResult();
                author.nick = "w";
                author.shelf = shelf;
            });
            within(wider, s -> same(number(s, "select count(*) from Author a join a.shelf s where a.nick = 'w' and s.room = 0"), 1L));
        }
        try (Connection c = DriverManager.getConnection(url(0), "postgres", "")) {
            List<String> names = new ArrayList<>();
            ResultSet indexes = c.getMetaData().getIndexInfo(null, SCHEMA, "authors", false, true);
            while (indexes.next()) names.add(indexes.getString("INDEX_NAME"));
            same(names.contains("authors_nick"), true);
        }
    }

    static void end(Session none) throws Exception {
        sql("alter table jpa.authors drop column shelf_id", "drop table jpa.shelves", "drop sequence jpa.shelves_seq");
        first.unwrap(SessionFactory.class).getSchemaManager().truncateMappedObjects();
        within(second, s -> same(number(s, "select count(*) from Author"), 0L));
        first.unwrap(SessionFactory.class).getSchemaManager().dropMappedObjects(false);
        try (Connection c = DriverManager.getConnection(url(1), "postgres", "");
                ResultSet tables = c.getMetaData().getTables(null, SCHEMA, "%", new String[] {"TABLE", "SEQUENCE"})) {
            same(tables.next(), false);
        }
        second.close();
        first.close();
        sql("drop schema if exists jpa cascade");
    }

    public static void main(String[] arguments) {
        System.setProperty("org.jboss.logging.provider", "slf4j");
        ports = arguments;
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("schema made, validated, updated", Orm::schema);
        checks.put("types round trip", Orm::types);
        checks.put("associations", Orm::associations);
        checks.put("batches", Orm::batches);
        checks.put("versions", Orm::versions);
        checks.put("HQL asks", Orm::hqlQueries);
        checks.put("HQL changes", Orm::hqlChanges);
        checks.put("criteria", Orm::criteria);
        checks.put("pages and streams", Orm::pages);
        checks.put("native queries", Orm::nativeQueries);
        checks.put("pessimistic locks", Orm::locks);
        checks.put("savepoints and rollback", Orm::savepoints);
        checks.put("inheritance", Orm::inheritance);
        checks.put("stateless sessions", Orm::withoutState);
        checks.put("violations", Orm::violations);
        checks.put("conflicts are retried on two hosts", Orm::conflicts);
        checks.put("the schema grows", Orm::update);
        checks.put("emptied and dropped", Orm::end);
        int failed = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try (Session s = first == null ? null : first.unwrap(SessionFactory.class).openSession()) {
                if (s != null) s.beginTransaction();
                try {
                    check.getValue().run(s);
                    if (s != null && s.isOpen() && s.getTransaction().isActive()) s.getTransaction().commit();
                } finally {
                    if (s != null && s.isOpen() && s.getTransaction().isActive()) s.getTransaction().rollback();
                }
            } catch (Throwable error) {
                failed += second == null ? checks.size() : 1;
                System.out.println("  FAILED Hibernate: " + check.getKey() + ": " + explained(error));
                if (second == null) break;
            }
        }
        String version = org.hibernate.Version.getVersionString();
        System.out.println("Hibernate " + version + ": " + (checks.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }

    private Orm() {}
}
