import { headers } from 'next/headers'
import Link from 'next/link'
import { redirect } from 'next/navigation'

async function save(form) {
  'use server'
  redirect(`/?saved=${form.get('name')}`)
}

export default async function Page({ searchParams }) {
  const { saved } = await searchParams
  return (
    <form action={save}>
      <p id="user">User: {(await headers()).get('x-user-username')}</p>
      <input name="name" />
      <button type="submit">Save</button>
      {saved && <p>Saved {saved}</p>}
      <Link href="/about">About</Link>
    </form>
  )
}
