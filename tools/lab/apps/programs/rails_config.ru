require 'rails'
require 'action_controller/railtie'
require 'action_cable/engine'

class Shop < Rails::Application
  config.load_defaults 6.1
  config.root = __dir__
  config.eager_load = false
  config.logger = Logger.new($stdout)
  config.secret_key_base = 'x' * 64
  config.action_cable.mount_path = '/cable'
  routes.append do
    root to: 'orders#index'
    post '/orders', to: 'orders#create'
  end
end
require_relative 'environment'
Shop.initialize!

module ApplicationCable
  class Connection < ActionCable::Connection::Base
  end
end

class OrdersChannel < ActionCable::Channel::Base
  def echo(data)
    transmit({ text: data['text'].upcase })
  end
end

class OrdersController < ActionController::Base
  PAGE = <<~HTML
    <p>User: <%= request.headers['X-User-Username'] %></p>
    <p><%= flash[:notice] %></p>
    <form action="<%= orders_path %>" method="post">
      <input type="hidden" name="authenticity_token" value="<%= form_authenticity_token %>">
      <input name="title"><button>Save</button>
    </form>
  HTML

  def index
    render inline: PAGE
  end

  def create
    redirect_to root_url, notice: "Saved #{params[:title]}"
  end
end

ActionCable.server.config.cable = { 'adapter' => 'async' }
ActionCable.server.config.connection_class = -> { ApplicationCable::Connection }
map('/shop') { run Shop }
