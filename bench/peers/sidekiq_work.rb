# Sidekiq with a job that does nothing: a worker loads this; `ruby sidekiq_work.rb COUNT` fills its queue.

require "sidekiq"

# Debian pairs it with a newer client library, which would warn at every call and cost Sidekiq its speed.
Redis.silence_deprecations = true

Sidekiq.configure_server do |config|
  config.redis = { url: ENV.fetch("REDIS_URL") }
  config.logger.level = Logger::FATAL
end
Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }

class Work
  include Sidekiq::Worker
  sidekiq_options queue: "sidekiq", retry: 2

  def perform(number, body); end
end

if $PROGRAM_NAME == __FILE__
  body = "x" * 1000
  (0...ARGV.fetch(0).to_i).each_slice(1000) do |numbers|
    Sidekiq::Client.push_bulk("class" => Work, "args" => numbers.map { |number| [number, body] })
  end
end
