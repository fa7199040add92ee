// What Hibernate keeps: ids of all kinds, associations, embedded values, inheritance, and types of every sort.

import jakarta.persistence.CascadeType;
import jakarta.persistence.CollectionTable;
import jakarta.persistence.Column;
import jakarta.persistence.DiscriminatorColumn;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Embeddable;
import jakarta.persistence.Embedded;
import jakarta.persistence.EmbeddedId;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.Inheritance;
import jakarta.persistence.InheritanceType;
import jakarta.persistence.JoinColumn;
import jakarta.persistence.JoinTable;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.MapsId;
import jakarta.persistence.NamedQuery;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OrderBy;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;
import jakarta.persistence.Version;
import java.io.Serializable;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.hibernate.annotations.Check;
import org.hibernate.annotations.ColumnDefault;
import org.hibernate.annotations.Comment;
import org.hibernate.annotations.CreationTimestamp;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.type.SqlTypes;

final class Shop {
    enum Mood { SAD, OK, GREAT }

    @Embeddable
    static class Address {
        @Column(length = 60)
        String street;
        String city;

        Address() {}

        Address(String street, String city) {
            this.street = street;
            this.city = city;
        }
    }

    @Entity(name = "Author")
    @Table(name = "authors", indexes = @Index(name = "authors_born", columnList = "born, name desc"))
    @NamedQuery(name = "byName", query = "select a from Author a where a.name = :name")
    @Check(name = "balance_ok", constraints = "balance >= 0")
    @Comment("who writes")
    static class Author {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;
        @Version
        int version;
        @Column(nullable = false, unique = true, length = 40)
        @Comment("the name")
        String name;
        @Enumerated(EnumType.STRING)
        Mood mood = Mood.OK;
        @Enumerated(EnumType.ORDINAL)
        Mood before;
        @Enumerated
        @JdbcTypeCode(SqlTypes.NAMED_ENUM)
        Mood named;
        @Column(precision = 12, scale = 2)
        @ColumnDefault("0.00")
        BigDecimal balance = BigDecimal.ZERO;
        LocalDate born;
        LocalTime wakes;
        LocalDateTime local;
        Instant instant;
        OffsetDateTime zoned;
        Duration took;
        @CreationTimestamp
        Instant made;
        boolean active = true;
        Double ratio;
        Float small;
        Short tiny;
        Byte least;
        Character letter;
        UUID key;
        byte[] bytes;
        @Column(columnDefinition = "text")
        String remark;
        @JdbcTypeCode(SqlTypes.JSON)
        Map<String, Object> data = new HashMap<>();
        @JdbcTypeCode(SqlTypes.ARRAY)
        List<String> words = new ArrayList<>();
        int[] numbers;
        @Embedded
        Address address;
        @ElementCollection
        @CollectionTable(name = "author_names", joinColumns = @JoinColumn(name = "author"))
        @Column(name = "other")
        Set<String> others = new TreeSet<>();
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true)
        @OrderBy("title")
        List<Book> books = new ArrayList<>();

        Author() {}

        Author(String name) {
            this.name = name;
        }

        Book add(String title, String price) {
            Book book = new Book(this, title, price);
            books.add(book);
            return book;
        }
    }

    @Entity(name = "Book")
    @Table(name = "books", uniqueConstraints = @UniqueConstraint(name = "title_once", columnNames = {"title", "author"}))
    static class Book {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "books")
        @SequenceGenerator(name = "books", sequenceName = "book_numbers", initialValue = 100, allocationSize = 50)
        Long id;
        @Column(nullable = false)
        String title;
        @ManyToOne(fetch = FetchType.LAZY, optional = false)
        @JoinColumn(name = "author")
        Author author;
        BigDecimal price;
        int sold;
        @ManyToMany(cascade = CascadeType.PERSIST)
        @JoinTable(name = "book_tags", joinColumns = @JoinColumn(name = "book"), inverseJoinColumns = @JoinColumn(name = "tag"))
        Set<Tag> tags = new HashSet<>();

        Book() {}

        Book(Author author, String title, String price) {
            this.author = author;
            this.title = title;
            this.price = new BigDecimal(price);
        }
    }

    @Entity(name = "Tag")
    @Table(name = "tags")
    static class Tag {
        @Id
        @GeneratedValue(strategy = GenerationType.UUID)
        UUID id;
        @Column(unique = true)
        String name;
        @ManyToMany(mappedBy = "tags")
        Set<Book> books = new HashSet<>();

        Tag() {}

        Tag(String name) {
            this.name = name;
        }
    }

    @Embeddable
    static class LineId implements Serializable {
        Long book;
        int number;

        LineId() {}

        LineId(Long book, int number) {
            this.book = book;
            this.number = number;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof LineId o && Objects.equals(o.book, book) && o.number == number;
        }

        @Override
        public int hashCode() {
            return Objects.hash(book, number);
        }
    }

    @Entity(name = "Line")
    @Table(name = "lines")
    static class Line {
        @EmbeddedId
        LineId id;
        @MapsId("book")
        @ManyToOne
        @JoinColumn(name = "book")
        Book book;
        String text;

        Line() {}

        Line(Book book, int number, String text) {
            this.id = new LineId(book.id, number);
            this.book = book;
            this.text = text;
        }
    }

    @Entity(name = "Item")
    @Table(name = "items")
    @Inheritance(strategy = InheritanceType.JOINED)
    @DiscriminatorColumn(name = "kind")
    static class Item {
        @Id
        @GeneratedValue
        Long id;
        String name;
        int stock;
    }

    @Entity(name = "Film")
    @Table(name = "films")
    static class Film extends Item {
        int minutes;
    }

    @Entity(name = "Song")
    @Table(name = "songs")
    static class Song extends Item {
        String singer;
    }

    private Shop() {}
}
