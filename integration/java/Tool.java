import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.slf4j.LoggerFactory;

/**
 * Calls one of Kafka's command-line tools, by its class (the first that exists of several, since
 * some have moved), as its shell script would, in this JVM: what it prints and its exit code are the values "stdout", "stderr" and "code".
 * "args" are its arguments, one a line; "{config}" among them is the client's properties
 * file. With "until" it is called again, for a minute at most, until its output has that text.
 */
final class Tool {
    // Once for all tools: Scala's ones keep the streams that they find first.
    private static final Tap OUT;
    private static final Tap ERR;

    static {
        LoggerFactory.getLogger(Tool.class); // logs go to the stream that was there
        OUT = new Tap(System.out);
        ERR = new Tap(System.err);
        System.setOut(new PrintStream(OUT, true));
        System.setErr(new PrintStream(ERR, true));
    }

    private final Step step;
    private final Result result;

    Tool(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        String config = step.get("config", "");
        List<String> args = new ArrayList<>();
        for (String arg : step.get("args", "").split("\n")) {
            args.add(arg.replace("{config}", config));
        }
        String tool = step.get("class", "");
        byte[] input = step.get("stdin", "").getBytes(StandardCharsets.UTF_8);
        String until = step.get("until", "");
        long deadline = System.nanoTime() + 60_000_000_000L;
        do {
            call(tool, args.toArray(new String[0]), input);
        } while (!(result.values.get("stdout") + result.values.get("stderr")).contains(until) && System.nanoTime() < deadline);
    }

    private void call(String tool, String[] args, byte[] input) throws Exception {
        List<Runnable> hooks = new ArrayList<>();
        Ended ended = new Ended();
        whenExiting("setExitProcedure", "Procedure", a -> ended.with((int) a[0], (String) a[1]));
        whenExiting("setHaltProcedure", "Procedure", a -> ended.with((int) a[0], (String) a[1]));
        whenExiting("setShutdownHookAdder", "ShutdownHookAdder", a -> hooks.add((Runnable) a[1]));
        InputStream stdin = System.in;
        System.setIn(new ByteArrayInputStream(input));
        ByteArrayOutputStream out = OUT.capture();
        ByteArrayOutputStream err = ERR.capture();
        try {
            find(tool).getMethod("main", String[].class).invoke(null, (Object) args);
            ended.code = ended.code < 0 ? 0 : ended.code;
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                e.getCause().printStackTrace(); // as the JVM would
                ended.code = 1;
            }
        } finally {
            hooks.forEach(Runnable::run);
            System.out.flush();
            System.err.flush();
            OUT.release();
            ERR.release();
            System.setIn(stdin);
        }
        result.values.put("code", Integer.toString(ended.code));
        result.values.put("stdout", out.toString(StandardCharsets.UTF_8));
        result.values.put("stderr", err.toString(StandardCharsets.UTF_8));
    }

    private static Class<?> find(String names) throws ClassNotFoundException {
        for (String name : names.split(" ")) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                // the next one
            }
        }
        throw new ClassNotFoundException(names);
    }

    /** Kafka's tools end by its class Exit, which lets tests step in. */
    private static void whenExiting(String setter, String kind, Consumer<Object[]> then) throws Exception {
        Class<?> exit = find("org.apache.kafka.common.utils.internals.Exit org.apache.kafka.common.utils.Exit");
        Class<?> type = Class.forName(exit.getName() + "$" + kind);
        exit.getMethod(setter, type).invoke(null, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, args) -> {
            then.accept(args);
            return null;
        }));
    }

    /** What a tool gets in place of the JVM's end. The first code counts: tools catch a lot. */
    private static final class Ended extends Error {
        private int code = -1;

        Ended() {
            super("the tool's end", null, false, false); // some print what they catch
        }

        void with(int code, String message) {
            if (message != null) {
                System.err.println(message);
            }
            if (this.code < 0) {
                this.code = code;
            }
            throw this;
        }
    }

    /** A stream that can be led into a buffer. */
    private static final class Tap extends FilterOutputStream {
        private final OutputStream through;

        Tap(OutputStream through) {
            super(through);
            this.through = through;
        }

        synchronized ByteArrayOutputStream capture() {
            ByteArrayOutputStream into = new ByteArrayOutputStream();
            out = into;
            return into;
        }

        synchronized void release() {
            out = through;
        }

        @Override
        public synchronized void write(int b) throws IOException {
            out.write(b);
        }

        @Override
        public synchronized void write(byte[] b, int off, int len) throws IOException {
            out.write(b, off, len);
        }
    }
}
