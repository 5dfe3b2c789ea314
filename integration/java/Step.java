import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

/** One step's mode and settings. Settings that nobody asked for are a mistake. */
final class Step {
    final String mode;
    private final Map<String, String> settings = new HashMap<>();
    private final Set<String> used = new HashSet<>();

    private Step(String mode) {
        this.mode = mode;
    }

    static Step parse(List<String> words) {
        Step step = new Step(words.get(0));
        for (String word : words.subList(1, words.size())) {
            int i = word.indexOf('=');
            step.settings.put(word.substring(0, i), word.substring(i + 1));
        }
        return step;
    }

    String get(String key, String otherwise) {
        used.add(key);
        return settings.getOrDefault(key, otherwise);
    }

    int get(String key, int otherwise) {
        return Integer.parseInt(get(key, Integer.toString(otherwise)));
    }

    /**
     * The client's properties: the file "config", "bootstrap", and all settings
     * that begin with "p.".
     */
    Properties properties() throws IOException {
        Properties p = new Properties();
        String file = get("config", "");
        if (!file.isEmpty()) {
            try (Reader r = new FileReader(file)) {
                p.load(r);
            }
        }
        String bootstrap = get("bootstrap", "");
        if (!bootstrap.isEmpty()) {
            p.put("bootstrap.servers", bootstrap);
        }
        settings.forEach((k, v) -> {
            if (k.startsWith("p.")) {
                used.add(k);
                p.put(k.substring(2), v);
            }
        });
        return p;
    }

    void checkAllUsed() {
        Set<String> unknown = new HashSet<>(settings.keySet());
        unknown.removeAll(used);
        unknown.remove("config");
        if (!unknown.isEmpty()) {
            throw new IllegalArgumentException(mode + ": unknown settings " + unknown);
        }
    }
}
