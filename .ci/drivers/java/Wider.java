// The same table of authors with more to it, and a table more: what hbm2ddl has to add.

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;

final class Wider {
    @Entity(name = "Author")
    @Table(name = "authors", indexes = @Index(name = "authors_nick", columnList = "nick"))
    static class Author {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;
        @Column(nullable = false, unique = true, length = 40)
        String name;
        @Column(length = 20)
        String nick;
        @ManyToOne
        Shelf shelf;
    }

    @Entity(name = "Shelf")
    @Table(name = "shelves", uniqueConstraints = @UniqueConstraint(name = "place_once", columnNames = {"room", "place"}))
    static class Shelf {
        @Id
        @GeneratedValue
        Long id;
        int room;
        int place;
    }

    private Wider() {}
}
