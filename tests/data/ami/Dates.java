import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.*;

/** Prints what SimpleDateFormat makes of dates, good and spoilt: zone, pattern, text, milliseconds, characters read. */
public final class Dates {
  private static final String[] ZONES = {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"};
  private static final String[] PATTERNS = {
    "yyyyMMdd", "yyyyMMddHHmmss", "yyyyMMddHHmmssSSS", "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ss.SSSZ", "yyyy-MM-dd'T'HH:mm:ssXXX", "yyyy-MM-dd'T'HH:mm:ssXX", "yyyy-MM-dd'T'HHX",
    "dd/MM/yy", "d.M.y", "MMM d, yyyy h:mm:ss a", "EEE, d MMM yyyy HH:mm:ss Z", "EEEE d MMMM yyyy",
    "EEE MMM dd HH:mm:ss z yyyy", "yyyy.MM.dd G 'at' HH:mm:ss z", "hh 'o''clock' a, z", "K:mm a", "kk:mm",
    "H:m:s", "yyyy-DDD", "yyyyDDD", "YYYY-'W'ww-u", "YYYY 'W'w E", "yyyy w E", "yyyy ww", "yyyy-MM W E", "yyyy-MM W",
    "yyyy-MM F E", "E yyyy-MM", "yyyy", "MM", "dd", "HH:mm", "yy", "YY ww u", "yyyy LLL dd", "D", "w u yyyy d M",
    "u F W D w", "a h", "h", "S", "ss.S", "yyyy MM dd HH a hh", "dd MM yyyy D", "yyMMddHHmmssZ", "''yyyy''",
  };
  private static final String SPOILS = " 0123456789-+:TZapmGCESUn/.,";

  public static void main(String[] arguments) {
    var random = new Random(7);
    for (String pattern : PATTERNS) {
      for (int turn = 0; turn < 24; turn++) {
        var zone = TimeZone.getTimeZone(ZONES[random.nextInt(ZONES.length)]);
        var format = new SimpleDateFormat(pattern, Locale.US);
        format.setTimeZone(zone);
        var start = new GregorianCalendar(zone);
        start.clear();
        start.set(1950, Calendar.JANUARY, 1);
        format.set2DigitYearStart(start.getTime());
        long instant = (long) (random.nextDouble() * 4_000_000_000_000L) - 600_000_000_000L;
        var text = new StringBuilder(format.format(new Date(instant)));
        for (int spoilt = turn % 3; spoilt > 0 && text.length() > 0; spoilt--) {
          int place = random.nextInt(text.length());
          char other = SPOILS.charAt(random.nextInt(SPOILS.length()));
          switch (random.nextInt(3)) {
            case 0 -> text.setCharAt(place, other);
            case 1 -> text.insert(place, other);
            default -> text.deleteCharAt(place);
          }
        }
        tell(format, zone.getID(), pattern, text.toString());
      }
    }
  }

  private static void tell(SimpleDateFormat format, String zone, String pattern, String text) {
    var position = new ParsePosition(0);
    Date date = format.parse(text, position);
    System.out.println(zone + "\t" + pattern + "\t" + text + "\t"
        + (date == null ? "none" : date.getTime()) + "\t" + position.getIndex());
  }
}
