# Sends 50 uploads of 100 KB at once over HTTP/2, and prints the different answers.
import asyncio, sys
import httpx
url, authority = sys.argv[1:]
async def main():
  async with httpx.AsyncClient(http2=True, verify=authority) as client:
    answers = await asyncio.gather(*[client.post(url, content=b'x' * 100000) for _ in range(50)])
    print(sorted({(answer.http_version, answer.status_code, answer.text) for answer in answers}))
asyncio.run(main())
