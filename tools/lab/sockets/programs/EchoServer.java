// Echoes WebSocket messages with an embedded Tomcat.
import jakarta.websocket.CloseReason;
import jakarta.websocket.Endpoint;
import jakarta.websocket.EndpointConfig;
import jakarta.websocket.MessageHandler;
import jakarta.websocket.Session;
import jakarta.websocket.server.ServerContainer;
import jakarta.websocket.server.ServerEndpointConfig;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.List;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.websocket.server.WsSci;

public class EchoServer {
  private static final int LIMIT = 4 << 20;

  public static class Echo extends Endpoint {
    @Override
    public void onOpen(Session session, EndpointConfig config) {
      session.setMaxTextMessageBufferSize(LIMIT);
      session.setMaxBinaryMessageBufferSize(LIMIT);
      session.addMessageHandler(String.class, (MessageHandler.Whole<String>) text -> {
        try {
          if (text.equals("close")) session.close(new CloseReason(CloseReason.CloseCodes.getCloseCode(4002), "as requested"));
          else session.getBasicRemote().sendText(text);
        } catch (IOException gone) {
          // The client left first.
        }
      });
      session.addMessageHandler(ByteBuffer.class, (MessageHandler.Whole<ByteBuffer>) bytes -> {
        try {
          session.getBasicRemote().sendBinary(bytes);
        } catch (IOException gone) {
          // The client left first.
        }
      });
    }
  }

  public static void main(String[] args) throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(Files.createTempDirectory("echo").toString());
    tomcat.setPort(Integer.parseInt(args[0]));
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    Context context = tomcat.addContext("", null);
    // First: it makes the container that the next one asks for.
    context.addServletContainerInitializer(new WsSci(), null);
    context.addServletContainerInitializer((classes, servlets) -> {
      ServerContainer container = (ServerContainer) servlets.getAttribute(ServerContainer.class.getName());
      try {
        container.addEndpoint(
            ServerEndpointConfig.Builder.create(Echo.class, "/live").subprotocols(List.of("chat")).build());
      } catch (jakarta.websocket.DeploymentException error) {
        throw new IllegalStateException(error);
      }
    }, null);
    // Without a servlet behind it no filter runs, and the endpoint is reached through one.
    Tomcat.addServlet(context, "default", "org.apache.catalina.servlets.DefaultServlet");
    context.addServletMappingDecoded("/", "default");
    tomcat.start();
    tomcat.getServer().await();
  }
}
