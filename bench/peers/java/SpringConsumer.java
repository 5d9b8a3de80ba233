import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.util.backoff.FixedBackOff;

/**
 * Spring Kafka's record listener, one record at a time, that does nothing: BOOTSTRAP TOPIC DEAD GROUP COUNT THREADS. A record
 * that is poisoned is tried three times without a pause, then published to DEAD. Says: handled, parked, seconds, seconds of
 * processor, megabytes.
 */
public final class SpringConsumer {
    private static final AtomicLong HANDLED = new AtomicLong(), PARKED = new AtomicLong(), BEGAN = new AtomicLong();
    private static final CountDownLatch ALL = new CountDownLatch(1);

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1], dead = arguments[2], group = arguments[3];
        long count = Long.parseLong(arguments[4]);
        int threads = Integer.parseInt(arguments[5]);
        var consumers = new DefaultKafkaConsumerFactory<byte[], byte[]>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ConsumerConfig.GROUP_ID_CONFIG, group,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class));
        var producers = new DefaultKafkaProducerFactory<byte[], byte[]>(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class));

        var properties = new ContainerProperties(topic);
        properties.setMessageListener((MessageListener<byte[], byte[]>) record -> {
            BEGAN.compareAndSet(0, System.nanoTime());
            if (record.value()[0] != '{') {
                throw new IllegalStateException("poison");
            }
            counted(HANDLED, count);
        });
        var container = new ConcurrentMessageListenerContainer<>(consumers, properties);
        container.setConcurrency(threads);
        var publish = new DeadLetterPublishingRecoverer(
                new KafkaTemplate<>(producers), (record, why) -> new TopicPartition(dead, record.partition()));
        container.setCommonErrorHandler(new DefaultErrorHandler((record, why) -> {
            publish.accept(record, why);
            counted(PARKED, count);
        }, new FixedBackOff(0, 2)));
        container.start();
        ALL.await();
        double seconds = (System.nanoTime() - BEGAN.get()) / 1e9;
        container.stop();
        say(seconds);
        System.exit(0);
    }

    private static void counted(AtomicLong what, long count) {
        what.incrementAndGet();
        if (HANDLED.get() + PARKED.get() >= count) {
            ALL.countDown();
        }
    }

    private static void say(double seconds) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        String peak = Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:")).findFirst().orElseThrow().replaceAll("\\D", "");
        System.out.printf("%d %d %f %f %f%n", HANDLED.get(), PARKED.get(), seconds,
                system.getProcessCpuTime() / 1e9, Double.parseDouble(peak) / 1024);
    }
}
