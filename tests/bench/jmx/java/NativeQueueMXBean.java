/** What a Java program would show of a queue by the platform's own means: a name and twelve numbers. */
public interface NativeQueueMXBean {
    String getName();

    long getStatistic0();

    long getStatistic1();

    long getStatistic2();

    long getStatistic3();

    long getStatistic4();

    long getStatistic5();

    long getStatistic6();

    long getStatistic7();

    long getStatistic8();

    long getStatistic9();

    long getStatistic10();

    long getStatistic11();
}
