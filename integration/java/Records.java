import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;

/**
 * The records that all clients agree on (records.go is the same): record i of a
 * series has the key PREFIX + eight digits of i and a value that repeats the key.
 */
final class Records {
    private final byte[] prefix;
    private final int size;

    Records(Step step) {
        prefix = step.get("prefix", "r").getBytes(StandardCharsets.UTF_8);
        size = step.get("size", 100);
    }

    byte[] key(int i) {
        byte[] key = Arrays.copyOf(prefix, prefix.length + 8);
        for (int p = key.length - 1; p >= prefix.length; p--, i /= 10) {
            key[p] = (byte) ('0' + i % 10);
        }
        return key;
    }

    byte[] value(byte[] key) {
        byte[] value = new byte[size];
        for (int i = 0; i < size; i++) {
            value[i] = key[i % key.length];
        }
        return value;
    }

    /** The number of a record of this series, or -1. */
    int index(byte[] key, byte[] value) {
        if (key == null || value == null || key.length != prefix.length + 8
                || !Arrays.equals(prefix, 0, prefix.length, key, 0, prefix.length)
                || !Arrays.equals(value, value(key))) {
            return -1;
        }
        int i = 0;
        for (int p = prefix.length; p < key.length; p++) {
            if (key[p] < '0' || key[p] > '9') {
                return -1;
            }
            i = 10 * i + key[p] - '0';
        }
        return i;
    }

    static long checksum(byte[] key, byte[] value) {
        CRC32 crc = new CRC32();
        crc.update(key);
        crc.update(value);
        return crc.getValue();
    }
}
