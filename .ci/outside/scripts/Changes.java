import java.lang.reflect.Proxy;
import java.sql.DriverManager;
import liquibase.Liquibase;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.ClassLoaderResourceAccessor;
import org.keycloak.connections.jpa.updater.liquibase.ThreadLocalSessionContext;
import org.keycloak.models.KeycloakSession;

/** Keycloak's change sets by Liquibase, which asks for a session of Keycloak's and, on an empty database, for nothing of it. */
public class Changes {
    public static void main(String[] words) throws Exception {
        var session = Proxy.newProxyInstance(Changes.class.getClassLoader(), new Class<?>[] {KeycloakSession.class}, (self, method, arguments) -> null);
        ThreadLocalSessionContext.setCurrentSession((KeycloakSession) session);
        var connection = new JdbcConnection(DriverManager.getConnection(words[0], words[1], "none"));
        var database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(connection);
        new Liquibase("META-INF/jpa-changelog-master.xml", new ClassLoaderResourceAccessor(), database).update("");
    }
}
