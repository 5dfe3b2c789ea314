import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A Kafka client for the integration tests: steps separated by "--", each a mode
 * and its settings (key=value), done one after the other in one JVM; behind the word
 * "together" all at once. Prints one line of JSON for each step, in their order. Exits
 * with 0 once all steps are done, whatever they saw: the tests judge.
 */
public final class Main {
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out; // tools' output is kept apart from it
        boolean together = args[0].equals("together");
        List<Step> steps = new ArrayList<>();
        List<String> words = new ArrayList<>();
        for (String arg : List.of(args).subList(together ? 1 : 0, args.length)) {
            if (arg.equals("--")) {
                steps.add(Step.parse(words));
                words.clear();
            } else {
                words.add(arg);
            }
        }
        steps.add(Step.parse(words));

        ExecutorService threads = Executors.newFixedThreadPool(together ? steps.size() : 1);
        List<Future<Result>> results = new ArrayList<>();
        for (Step step : steps) {
            results.add(threads.submit(() -> did(step)));
        }
        threads.shutdown();
        ObjectMapper json = new ObjectMapper();
        for (Future<Result> result : results) {
            out.println(json.writeValueAsString(result.get())); // ends the JVM where a step was no step
            out.flush();
        }
    }

    private static Result did(Step step) throws Exception {
        Result result = new Result(step.mode);
        long start = System.nanoTime();
        try {
            switch (step.mode) {
                case "produce" -> new Produce(step, result).run();
                case "consume" -> new Consume(step, result).run();
                case "share" -> new Share(step, result).run();
                case "acknowledge" -> new Acknowledge(step, result).run();
                case "administer" -> new Administer(step, result).run();
                case "describe" -> new Describe(step, result).run();
                case "tokens" -> new Tokens(step, result).run();
                case "tool" -> new Tool(step, result).run();
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
        return result;
    }
}
