import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.x500.X500Principal;

/**
 * Answers one line with one line, so that a test can hold the package against Java:
 *
 *   name HEX                                  what getName() prints for a DER-encoded name
 *   rule PATTERN REPLACEMENT FLAG SOURCE      what a mapping rule makes of a name
 *
 * The words of a rule are base64, "=" alone is the empty word; the flag is L, U or -.
 * Answers are "ok BASE64", "none" (the rule does not match) and "error CLASS".
 */
public final class Oracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                String result = answer(line.split(" "));
                answer = result == null ? "none" : "ok " + Base64.getEncoder().encodeToString(result.getBytes("UTF-8"));
            } catch (RuntimeException | StackOverflowError e) {
                answer = "error " + e.getClass().getSimpleName();
            }
            out.println(answer);
        }
        out.flush();
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("name")) {
            return new X500Principal(HexFormat.of().parseHex(words.length > 1 ? words[1] : "")).getName();
        }
        Pattern pattern = Pattern.compile(text(words[1]));
        String replacement = text(words[2]);
        String source = text(words[4]);
        Matcher whole = pattern.matcher(source);
        if (!whole.matches()) {
            return null;
        }
        String result = source.replaceAll(pattern.pattern(), replacement);
        switch (words[3]) {
            case "L": return result.toLowerCase(Locale.ENGLISH);
            case "U": return result.toUpperCase(Locale.ENGLISH);
            default: return result;
        }
    }

    private static String text(String word) throws Exception {
        return word.equals("=") ? "" : new String(Base64.getDecoder().decode(word), "UTF-8");
    }
}
