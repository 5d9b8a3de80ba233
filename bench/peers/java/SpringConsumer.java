import java.util.Map;
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
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1], dead = arguments[2], group = arguments[3];
        var tally = new Tally(Long.parseLong(arguments[4]));
        int threads = Integer.parseInt(arguments[5]);
        var consumers = new DefaultKafkaConsumerFactory<byte[], byte[]>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ConsumerConfig.GROUP_ID_CONFIG, group,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                // A try seeks back, which waits for the fetch under way: half a second by default at the end of a topic,
                // where a short one nearly always is.
                ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "10",
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class));
        var producers = new DefaultKafkaProducerFactory<byte[], byte[]>(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class));

        var properties = new ContainerProperties(topic);
        properties.setMessageListener((MessageListener<byte[], byte[]>) record -> {
            if (tally.isPoison(record.value())) {
                throw new IllegalStateException("poison");
            }
            tally.handled();
        });
        var container = new ConcurrentMessageListenerContainer<>(consumers, properties);
        container.setConcurrency(threads);
        var publish = new DeadLetterPublishingRecoverer(
                new KafkaTemplate<>(producers), (record, why) -> new TopicPartition(dead, record.partition()));
        container.setCommonErrorHandler(new DefaultErrorHandler((record, why) -> {
            publish.accept(record, why);
            tally.parked();
        }, new FixedBackOff(0, 2)));
        container.start();
        double seconds = tally.await();
        container.stop();
        tally.say(seconds);
        System.exit(0);
    }
}
