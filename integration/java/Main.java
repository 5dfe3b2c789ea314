import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;

/**
 * A Kafka client for the integration tests: steps separated by "--", each a mode
 * and its settings (key=value), done one after the other in one JVM. Prints one
 * line of JSON for each step. Exits with 0 once all steps are done, whatever they
 * saw: the tests judge.
 */
public final class Main {
    public static void main(String[] args) throws Exception {
        List<Step> steps = new ArrayList<>();
        List<String> words = new ArrayList<>();
        for (String arg : args) {
            if (arg.equals("--")) {
                steps.add(Step.parse(words));
                words.clear();
            } else {
                words.add(arg);
            }
        }
        steps.add(Step.parse(words));

        ObjectMapper json = new ObjectMapper();
        for (Step step : steps) {
            Result result = new Result(step.mode);
            long start = System.nanoTime();
            try {
                switch (step.mode) {
                    case "produce" -> new Produce(step, result).run();
                    case "consume" -> new Consume(step, result).run();
                    case "describe" -> new Describe(step, result).run();
                    case "tokens" -> new Tokens(step, result).run();
                    case "jmx" -> new Jmx(step, result).run();
                    default -> throw new IllegalArgumentException("unknown mode " + step.mode);
                }
            } catch (Exception e) {
                if (e instanceof IllegalArgumentException) {
                    throw e;
                }
                result.failed(e);
            }
            step.checkAllUsed();
            result.millis = (System.nanoTime() - start) / 1_000_000;
            System.out.println(json.writeValueAsString(result));
            System.out.flush();
        }
    }
}
