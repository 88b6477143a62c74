/** A platform MXBean whose values another thread may set at any time. */
final class NativeQueue implements NativeQueueMXBean {
    private final String name;
    private volatile long statistic0;
    private volatile long statistic1;
    private volatile long statistic2;
    private volatile long statistic3;
    private volatile long statistic4;
    private volatile long statistic5;
    private volatile long statistic6;
    private volatile long statistic7;
    private volatile long statistic8;
    private volatile long statistic9;
    private volatile long statistic10;
    private volatile long statistic11;

    NativeQueue(String name) {
        this.name = name;
    }

    /** All twelve numbers anew. */
    void set(long value) {
        statistic0 = value + 0;
        statistic1 = value + 1;
        statistic2 = value + 2;
        statistic3 = value + 3;
        statistic4 = value + 4;
        statistic5 = value + 5;
        statistic6 = value + 6;
        statistic7 = value + 7;
        statistic8 = value + 8;
        statistic9 = value + 9;
        statistic10 = value + 10;
        statistic11 = value + 11;
    }

    @Override
    public String getName() {
        return name;
    }

    @Override
    public long getStatistic0() {
        return statistic0;
    }

    @Override
    public long getStatistic1() {
        return statistic1;
    }

    @Override
    public long getStatistic2() {
        return statistic2;
    }

    @Override
    public long getStatistic3() {
        return statistic3;
    }

    @Override
    public long getStatistic4() {
        return statistic4;
    }

    @Override
    public long getStatistic5() {
        return statistic5;
    }

    @Override
    public long getStatistic6() {
        return statistic6;
    }

    @Override
    public long getStatistic7() {
        return statistic7;
    }

    @Override
    public long getStatistic8() {
        return statistic8;
    }

    @Override
    public long getStatistic9() {
        return statistic9;
    }

    @Override
    public long getStatistic10() {
        return statistic10;
    }

    @Override
    public long getStatistic11() {
        return statistic11;
    }
}
