import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaFuture;

/** Tries the four delegation-token APIs and notes how each fails. */
final class Tokens {
    private final Step step;
    private final Result result;

    Tokens(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        try (Admin admin = Admin.create(step.properties())) {
            Map<String, Callable<KafkaFuture<?>>> calls = Map.of(
                    "create", () -> admin.createDelegationToken().delegationToken(),
                    "renew", () -> admin.renewDelegationToken(new byte[32]).expiryTimestamp(),
                    "expire", () -> admin.expireDelegationToken(new byte[32]).expiryTimestamp(),
                    "describe", () -> admin.describeDelegationToken().delegationTokens());
            for (String name : List.of("create", "renew", "expire", "describe")) {
                try {
                    calls.get(name).call().get(60, TimeUnit.SECONDS);
                    result.values.put(name, "done");
                } catch (java.util.concurrent.ExecutionException e) {
                    result.values.put(name, e.getCause().getClass().getSimpleName());
                }
            }
        }
    }
}
