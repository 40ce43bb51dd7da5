// Tomcat behind the gateway: a JSP page, its session, and the redirect that Tomcat writes by itself.
import { equal, match } from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { firstLine, type Lab, type System } from './system.ts'
import { askThreeWays, textOf } from './three-ways.ts'

const HOME = process.env.PORTARIA_LAB_TOMCAT ?? '/usr/share/tomcat10'

const PAGE = `<%@ page contentType="text/html" session="true" %>
<p>Tomcat <%= request.getHeader("X-User-Id") %> <%= request.getRequestURL() %> <%= session.isNew() %></p>`

/** Tomcat with one application, `shop`; resolves with its port. */
const startTomcat = async (lab: Lab): Promise<number> => {
  const port = await freePort()
  for (const folder of ['conf', 'logs', 'temp', 'work', 'webapps/shop/WEB-INF'])
    mkdirSync(join(lab.folder, folder), { recursive: true })
  const write = (file: string, text: string) => writeFileSync(join(lab.folder, file), text)
  const valve = recipeBlock('tomcat', 'xml')
  write(
    'conf/server.xml',
    `<Server port="-1"><Service name="Catalina"><Connector address="127.0.0.1" port="${port}" protocol="HTTP/1.1"/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps" autoDeploy="false">
${valve}</Host></Engine></Service></Server>`
  )
  write(
    'conf/web.xml',
    `<web-app version="6.0" xmlns="https://jakarta.ee/xml/ns/jakartaee">
<servlet><servlet-name>default</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class></servlet>
<servlet><servlet-name>jsp</servlet-name><servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class></servlet>
<servlet-mapping><servlet-name>default</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
<servlet-mapping><servlet-name>jsp</servlet-name><url-pattern>*.jsp</url-pattern></servlet-mapping></web-app>`
  )
  write('webapps/shop/index.jsp', PAGE)
  write('webapps/shop/WEB-INF/web.xml', '<web-app version="6.0" xmlns="https://jakarta.ee/xml/ns/jakartaee"/>')
  const classes = [join(HOME, 'bin/bootstrap.jar'), join(HOME, 'bin/tomcat-juli.jar')].join(':')
  const folders = [`-Dcatalina.home=${HOME}`, `-Dcatalina.base=${lab.folder}`, `-Djava.io.tmpdir=${lab.folder}/temp`]
  await lab.run('java', ['-cp', classes, ...folders, 'org.apache.catalina.startup.Bootstrap', 'start'], port)
  return port
}

export const tomcat: System = {
  name: 'Tomcat (JSP)',
  recipe: 'tomcat',
  version: () =>
    /Tomcat\/([\d.]+)/.exec(
      firstLine('java', '-cp', join(HOME, 'lib/catalina.jar'), 'org.apache.catalina.util.ServerInfo')
    )?.[1] ?? '',
  async check(lab) {
    const port = await startTomcat(lab)
    const world = await lab.gateway('tomcat', { '127.0.0.1:8080': `127.0.0.1:${port}` })
    const token = await world.tokenFor({ id: 7 })
    const ways = await askThreeWays(lab, {
      world,
      direct: () => textOf(`http://127.0.0.1:${port}/shop/index.jsp`),
      path: '/shop/index.jsp',
      token,
      expected: /<p>Tomcat /,
      // The valve writes port 80 for http, unless it is given another.
      identity: /<p>Tomcat 7 http:\/\/127\.0\.0\.1\/shop\/index\.jsp /
    })
    const redirect = await world.fetch('/shop', { token })
    equal(redirect.status, 302)
    match(redirect.headers.get('location') ?? '', /^(?:http:\/\/127\.0\.0\.1:\d+)?\/shop\/$/)
    const first = await world.fetch('/shop/index.jsp', { token })
    const session = /JSESSIONID=[^;]+/.exec(first.headers.get('set-cookie') ?? '')?.[0] ?? ''
    const again = await world.fetch('/shop/index.jsp', { token, headers: { cookie: session } })
    match(await again.text(), / false<\/p>/)
    return [...ways, 'public host in getRequestURL, its own session, redirect of the context']
  }
}
