package desk;

import jakarta.servlet.http.HttpServletRequest;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.*;
import org.springframework.security.authentication.ProviderManager;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.security.web.authentication.preauth.*;
import org.springframework.security.web.csrf.CsrfToken;
import org.springframework.web.bind.annotation.*;
import org.springframework.web.util.HtmlUtils;

@SpringBootApplication
public class Desk {
  public static void main(String[] arguments) {
    SpringApplication.run(Desk.class, arguments);
  }
}

@RestController
class Orders {
  @GetMapping(path = "/", produces = "text/html")
  String index(HttpServletRequest request, CsrfToken token) {
    return "<p>User: " + request.getRemoteUser() + "</p><form method=post action=orders>"
        + "<input type=hidden name='" + token.getParameterName() + "' value='" + token.getToken() + "'>"
        + "<input name=title><button>Save</button></form>";
  }

  @PostMapping(path = "/orders", produces = "text/html")
  String save(@RequestParam("title") String title) {
    return "<p>Saved " + HtmlUtils.htmlEscape(title) + "</p>";
  }
}

