//! Who may come in, over which wire, and what is said to who may not.

use dlo_brokers::rabbitmq::RabbitmqConfig;
use dlo_brokers::secret::Secret;
use dlo_brokers::tls::TlsConfig;
use dlo_core::broker::{BrokerError, PublishError};
use dlo_testkit::harness::rabbitmq::Rabbitmq;

use super::{broker, client, config, declare, fresh, message, publish, take};

fn over_tls(server: &Rabbitmq, tls: TlsConfig) -> RabbitmqConfig {
    RabbitmqConfig {
        host: Some("localhost".to_owned()),
        port: Some(server.tls_port()),
        username: Some("guest".to_owned()),
        password: Some(Secret::new("guest")),
        tls: Some(tls),
        ..RabbitmqConfig::default()
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_with_directions_and_never_shown() {
    let server = Rabbitmq::shared().await;
    let url = server.url().replace("guest:guest", "guest:hunter2");
    let broker = broker(config(url)).await;
    let refusal = broker.ping().await.unwrap_err();
    let shown = refusal.to_string();
    assert!(matches!(refusal, BrokerError::Refused(_)), "{shown}");
    assert!(shown.contains("password") && !shown.contains("hunter2"), "{shown}");
    let sent = publish(&broker, "anything", message("m")).await;
    assert!(matches!(sent, Err(PublishError::Refused(_))), "{sent:?}");
}

#[tokio::test]
async fn a_virtual_host_that_is_not_there_is_refused() {
    let server = Rabbitmq::shared().await;
    let broker = broker(config(server.url().replace("%2f", "nowhere"))).await;
    let refusal = broker.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("virtual host")), "{refusal}");
}

#[tokio::test]
async fn a_message_makes_its_round_over_tls_with_and_without_a_certificate_of_ours() {
    let server = Rabbitmq::shared().await;
    let ca = Some(server.certificate("ca.pem"));
    let mutual = TlsConfig {
        ca: ca.clone(),
        cert: Some(server.certificate("client.pem")),
        key: Some(server.certificate("client.key")),
    };
    for tls in [TlsConfig { ca, ..TlsConfig::default() }, mutual] {
        let queue = fresh("tls");
        declare(&client(&server.url()).await, &queue, &[]).await;
        let broker = broker(over_tls(server, tls)).await;
        publish(&broker, &queue, message("secret")).await.unwrap();
        assert_eq!(&*take(&broker, &queue).await.payload.0, b"secret");
    }
}

#[tokio::test]
async fn a_server_whose_authority_is_unknown_is_refused_with_the_setting_to_change() {
    let server = Rabbitmq::shared().await;
    let broker = broker(over_tls(server, TlsConfig::default())).await;
    let refusal = broker.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("tls.ca")), "{refusal}");
}

#[tokio::test]
async fn the_management_plugin_names_the_server_and_sees_what_others_hold() {
    let server = Rabbitmq::shared().await;
    let watching =
        RabbitmqConfig { management: Some(Secret::new(server.management())), ..config(server.url()) };
    let (watching, working) = (broker(watching).await, broker(config(server.url())).await);
    let name = watching.ping().await.unwrap().unwrap();
    assert!(name.starts_with("RabbitMQ 3.") || name.starts_with("RabbitMQ 4."), "{name}");
    let queue = fresh("watched");
    declare(&client(&server.url()).await, &queue, &[]).await;
    let mut old = message("m");
    old.headers.push_transport(dlo_core::origin::BrokerKind::Rabbitmq, "timestamp", "1700000000");
    for _ in 0..2 {
        publish(&working, &queue, old.clone()).await.unwrap();
    }
    let source = working.source(&queue, "g").await.unwrap();
    // Its numbers are a second old at most: wait for them.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let state = watching.inspector().inspect(&queue, None).await.unwrap();
        if (state.depth, state.in_flight, state.consumers) == (Some(0), Some(2), Some(1)) {
            break;
        }
        assert!(std::time::Instant::now() < patience, "{state:?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    source.close().await.unwrap();
    let wrong = Secret::new(server.management().replace("guest:guest", "guest:hunter2"));
    let stranger = broker(RabbitmqConfig { management: Some(wrong), ..config(server.url()) }).await;
    let refusal = stranger.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if !why.contains("hunter2")), "{refusal}");
}
