import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.errors.RetriableException;

/** What is printed of a step. Safe for several threads. */
public final class Result {
    public final String mode;
    public int count;
    public long sum;
    public int duplicates;
    public int foreign;
    public int sent;
    public long millis;
    public final Map<String, Integer> errors = new TreeMap<>();
    public final List<String> fatal = new ArrayList<>();
    public final List<String> messages = new ArrayList<>();
    public final TreeSet<String> nodes = new TreeSet<>();
    public final Map<String, String> values = new TreeMap<>();

    Result(String mode) {
        this.mode = mode;
    }

    /** Notes an exception, by its innermost Kafka cause, and whether retrying would cure it. */
    synchronized void failed(Throwable e) {
        Throwable cause = e;
        while (cause.getCause() != null && !(cause instanceof org.apache.kafka.common.errors.ApiException)) {
            cause = cause.getCause();
        }
        errors.merge(cause.getClass().getSimpleName(), 1, Integer::sum);
        if (messages.size() < 20) {
            messages.add(e + (cause == e ? "" : " <- " + cause));
        }
        if (!(cause instanceof RetriableException) && fatal.size() < 20) {
            fatal.add(cause.toString());
        }
    }

    /** Counts something that is worth knowing and no error. */
    synchronized void noted(String what) {
        values.merge(what, "1", (a, b) -> Integer.toString(Integer.parseInt(a) + 1));
    }

    synchronized void counted(long checksum) {
        count++;
        sum += checksum;
    }
}
