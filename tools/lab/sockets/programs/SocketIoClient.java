// Talks to a server with the Java client, and says in one line what came of it. Arguments: url, namespace, auth, transports.
import io.socket.client.Ack;
import io.socket.client.IO;
import io.socket.client.Socket;
import java.net.URI;
import java.util.Map;
import java.util.HashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.json.JSONObject;

public class SocketIoClient {
  private static Object[] call(Socket socket, String event, Object... args) throws Exception {
    CompletableFuture<Object[]> answer = new CompletableFuture<>();
    socket.emit(event, args, (Ack) answer::complete);
    return answer.get(30, TimeUnit.SECONDS);
  }

  public static void main(String[] args) throws Exception {
    IO.Options options = new IO.Options();
    options.transports = args[3].split(",");
    options.reconnection = false;
    // Its type takes text only, so no user object goes with the token.
    Map<String, String> auth = new HashMap<>();
    JSONObject given = new JSONObject(args[2]);
    if (given.has("token")) auth.put("token", given.getString("token"));
    options.auth = auth;
    Socket socket = IO.socket(URI.create(args[0] + args[1]), options);
    CompletableFuture<String> hello = new CompletableFuture<>();
    CompletableFuture<Object[]> pushed = new CompletableFuture<>();
    CompletableFuture<String> outcome = new CompletableFuture<>();
    socket.on("hello", words -> hello.complete((String) words[0]));
    socket.on("pushed", pushed::complete);
    socket.on(Socket.EVENT_CONNECT, none -> outcome.complete("in"));
    socket.on(Socket.EVENT_CONNECT_ERROR, error -> {
      System.err.println(error.length == 0 ? "" : error[0]);
      outcome.complete("refused");
    });
    socket.connect();
    if (outcome.get(30, TimeUnit.SECONDS).equals("refused")) {
      System.out.println("refused");
      System.exit(0);
    }
    byte[] sent = new byte[120];
    for (int i = 0; i < sent.length; i++) sent[i] = (byte) (i * 37);
    Object[] echo = call(socket, "echo", "x", sent, 5);
    boolean same = java.util.Arrays.equals((byte[]) echo[1], sent);
    String word = hello.get(30, TimeUnit.SECONDS);
    socket.emit("push");
    Object[] parts = pushed.get(30, TimeUnit.SECONDS);
    for (int i = 0; i < 10; i++) socket.emit("count", i);
    Object inOrder = call(socket, "counted")[0];
    System.out.println(word + "; echo " + echo[0] + " " + (same ? sent.length : "CHANGED") + " " + echo[2] + "; pushed "
        + ((byte[]) parts[0]).length + " " + parts[1] + " " + ((byte[]) parts[2]).length + "; " + inOrder + " in order; "
        + args[3].split(",")[args[3].split(",").length - 1]);
    socket.disconnect();
    System.exit(0);
  }
}
