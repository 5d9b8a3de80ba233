import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Confluent's Parallel Consumer with a handler that does nothing, in order by key as it is by default: BOOTSTRAP TOPIC DEAD
 * GROUP COUNT THREADS. A record that is poisoned is tried three times without a pause, then published to DEAD by the handler:
 * it has no dead letters of its own. Says: handled, parked, seconds, seconds of processor, megabytes.
 */
public final class ParallelConsumer {
    private static final int RETRIES = 2;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1], dead = arguments[2], group = arguments[3];
        var tally = new Tally(Long.parseLong(arguments[4]));
        var consumer = new KafkaConsumer<byte[], byte[]>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ConsumerConfig.GROUP_ID_CONFIG, group,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false",
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class));
        var producer = new KafkaProducer<byte[], byte[]>(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class));
        var options = ParallelConsumerOptions.<byte[], byte[]>builder()
                .consumer(consumer)
                .maxConcurrency(Integer.parseInt(arguments[5]))
                .defaultMessageRetryDelay(Duration.ZERO)
                .build();
        var processor = ParallelStreamProcessor.createEosStreamProcessor(options);
        processor.subscribe(List.of(topic));
        processor.poll(context -> {
            var one = context.getSingleRecord();
            var record = one.getConsumerRecord();
            if (!tally.isPoison(record.value())) {
                tally.handled();
                return;
            }
            if (one.getNumberOfFailedAttempts() < RETRIES) {
                throw new IllegalStateException("poison");
            }
            try {
                producer.send(new ProducerRecord<>(dead, record.partition(), record.key(), record.value())).get();
            } catch (Exception why) {
                throw new IllegalStateException(why);
            }
            tally.parked();
        });
        double seconds = tally.await();
        // What is done is committed.
        processor.closeDrainFirst();
        tally.say(seconds);
        System.exit(0);
    }
}
