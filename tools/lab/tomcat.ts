// Tomcat behind the gateway: a JSP page, its session, and the redirect that Tomcat writes by itself.
import { equal, match } from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { recipeBlock } from '../../test/support/recipe.ts'
import { backend } from './backend.ts'
import { versionOf } from './system.ts'

const HOME = '/usr/share/tomcat10'

const PAGE = `<%@ page contentType="text/html" session="true" %>
<p>Tomcat <%= request.getHeader("X-User-Id") %> <%= request.getRequestURL() %> <%= session.isNew() %></p>`

const SERVER = `<Server port="-1"><Service name="Catalina"><Connector address="127.0.0.1" port="PORT" protocol="HTTP/1.1"/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps" autoDeploy="false">
${recipeBlock('tomcat', 'xml')}</Host></Engine></Service></Server>`

const SERVLETS = `<web-app version="6.0" xmlns="https://jakarta.ee/xml/ns/jakartaee">
<servlet><servlet-name>default</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class></servlet>
<servlet><servlet-name>jsp</servlet-name><servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class></servlet>
<servlet-mapping><servlet-name>default</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
<servlet-mapping><servlet-name>jsp</servlet-name><url-pattern>*.jsp</url-pattern></servlet-mapping></web-app>`

export const tomcat = backend({
  name: 'Tomcat (JSP)',
  recipe: 'tomcat',
  programs: { java: 'default-jre-headless', [join(HOME, 'bin/catalina.sh')]: 'tomcat10' },
  version: () => versionOf('java', '-cp', join(HOME, 'lib/catalina.jar'), 'org.apache.catalina.util.ServerInfo'),
  page: {
    path: '/shop/index.jsp',
    expected: /<p>Tomcat /,
    // The valve writes port 80 for http, unless it is given another.
    identity: /<p>Tomcat 7 http:\/\/127\.0\.0\.1\/shop\/index\.jsp /
  },
  /** With one application, `shop`. */
  start(lab) {
    for (const folder of ['logs', 'temp', 'work']) mkdirSync(join(lab.folder, folder))
    const classes = [join(HOME, 'bin/bootstrap.jar'), join(HOME, 'bin/tomcat-juli.jar')].join(':')
    const folders = [`-Dcatalina.home=${HOME}`, '-Dcatalina.base=HERE', '-Djava.io.tmpdir=HERE/temp']
    return lab.start('java', ['-cp', classes, ...folders, 'org.apache.catalina.startup.Bootstrap', 'start'], {
      files: {
        'conf/server.xml': SERVER,
        'conf/web.xml': SERVLETS,
        'webapps/shop/index.jsp': PAGE,
        'webapps/shop/WEB-INF/web.xml': '<web-app version="6.0" xmlns="https://jakarta.ee/xml/ns/jakartaee"/>'
      }
    })
  },
  async check({ world, token }) {
    const redirect = await world.fetch('/shop', { token })
    equal(redirect.status, 302)
    match(redirect.headers.get('location') ?? '', /^(?:http:\/\/127\.0\.0\.1:\d+)?\/shop\/$/)
    const first = await world.fetch('/shop/index.jsp', { token })
    const session = /JSESSIONID=[^;]+/.exec(first.headers.get('set-cookie') ?? '')?.[0] ?? ''
    const again = await world.fetch('/shop/index.jsp', { token, headers: { cookie: session } })
    match(await again.text(), / false<\/p>/)
    return ['public host in getRequestURL, its own session, redirect of the context']
  }
})
