/** What the gateway's virtual machine is asked to do by its own means, timed where it is done. */
public interface NativeWorkMXBean {
    /** Sets twelve numbers of every queue, {@code times} times; how many nanoseconds that took. */
    long set(int times);

    /** Registers so many more queues, and takes them away again; how many nanoseconds registering took. */
    long register(int queues);
}
