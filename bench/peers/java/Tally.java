import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** What the peers in Java share: how many were handled and parked, the clock, and the line that says so. */
final class Tally {
    private final AtomicLong handled = new AtomicLong(), parked = new AtomicLong(), began = new AtomicLong();
    private final CountDownLatch all = new CountDownLatch(1);
    private final long count;

    Tally(long count) {
        this.count = count;
    }

    /** Starts the clock; a handler calls it with every record. A poisoned one is no JSON: its first byte says so. */
    boolean isPoison(byte[] body) {
        began.compareAndSet(0, System.nanoTime());
        return body[0] != '{';
    }

    void handled() {
        counted(handled);
    }

    void parked() {
        counted(parked);
    }

    private void counted(AtomicLong what) {
        what.incrementAndGet();
        if (handled.get() + parked.get() >= count) {
            all.countDown();
        }
    }

    /** Seconds until every record has met its end. */
    double await() throws InterruptedException {
        all.await();
        return (System.nanoTime() - began.get()) / 1e9;
    }

    /** Says: handled, parked, seconds, seconds of processor, megabytes. */
    void say(double seconds) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        String peak = Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:")).findFirst().orElseThrow().replaceAll("\\D", "");
        System.out.printf("%d %d %f %f %f%n", handled.get(), parked.get(), seconds,
                system.getProcessCpuTime() / 1e9, Double.parseDouble(peak) / 1024);
    }
}
