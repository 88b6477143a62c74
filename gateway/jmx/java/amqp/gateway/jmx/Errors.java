package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.List;

/** What could not be carried out of a batch: all counted, the first ones in words. */
final class Errors {
    private static final int MAX_TEXTS = 20;
    private static final int MAX_TEXT_LENGTH = 500;

    private final List<String> texts = new ArrayList<>();
    private long count;

    void add(String text) {
        count++;
        if (texts.size() < MAX_TEXTS) {
            texts.add(text.length() > MAX_TEXT_LENGTH ? text.substring(0, MAX_TEXT_LENGTH) + "..." : text);
        }
    }

    /** As an array: how many, and the texts. */
    void write(MessageWriter writer) {
        writer.array(2).integer(count).array(texts.size());
        texts.forEach(writer::string);
    }
}
