// Lets Admins manage areas.
import { useList } from './console-data.ts'
import { actions, actOf, type Column, Dialog, Listing, Name, useActs } from './console-parts.ts'
import { Field, sends } from './fields.ts'
import { html, useState, type VNode } from './render.ts'
import type { Named } from './shapes.ts'
import { useUnsaved } from './unsaved.ts'
import { text } from './words-console.ts'

export const AreasView = (): VNode => {
  const list = useList<Named>('areas')
  const { ask, say, change, notices } = useActs(list.reload)
  const [renamed, setRenamed] = useState<Named | undefined>()
  const [name, setName] = useState('')
  useUnsaved(name.trim() !== '')
  const close = () => setRenamed(undefined)
  const settle = () => {
    close()
    say(text('areaRenamed'))
    list.reload()
  }

  const create = async () => {
    if (await change('areas', 'POST', text('areaCreated'), { name: name.trim() }, text('areaTaken')))
      setName(now => (now === name ? '' : now))
  }
  const remove = ({ id, name }: Named) => {
    const run = () => change(`areas/${id}`, 'DELETE', text('areaDeleted'), undefined, text('areaGranted'))
    ask(actOf(text, 'delete', { name }, run))
  }
  const columns: Column<Named>[] = [
    [text('name'), ({ name }) => html`<${Name} of=${name} />`],
    actions(area => [
      [text('rename'), text('renameArea', { name: area.name }), () => setRenamed(area)],
      [text('delete'), text('deleteArea', { name: area.name }), () => remove(area)]
    ])
  ]
  return html`<h1>${text('areas')}</h1>
    ${notices}
    <form class="filters" onSubmit=${sends(create)}>
      <${Field} grows id="area-name" label=${text('newArea')} required maxlength="256" value=${name} dir="auto" onValue=${setName} />
      <button type="submit" class="main">${text('create')}</button></form>
    <${Listing} of=${list} label=${text('areas')} columns=${columns} keyOf=${({ id }: Named) => id} />
    ${renamed !== undefined && html`<${RenameArea} area=${renamed} onClose=${close} onRenamed=${settle} />`}`
}

interface RenameProps {
  readonly area: Named
  readonly onClose: () => void
  readonly onRenamed: () => void
}

/** Stays open, with what was typed, while the name is refused. */
const RenameArea = ({ area, onClose, onRenamed }: RenameProps): VNode => {
  const { change, notices } = useActs()
  const rename = async (form: HTMLFormElement) => {
    const body = { name: new FormData(form).get('name') }
    if (await change(`areas/${area.id}`, 'PATCH', '', body, text('areaTaken'))) onRenamed()
  }
  return html`<${Dialog} title=${text('renameArea', { name: area.name })} onClose=${onClose}>
    <form onSubmit=${sends(rename)}>
      ${notices}
      <${Field} id="rename" label=${text('newName')} name="name" required maxlength="256" defaultValue=${area.name} dir="auto" />
      <div class="buttons"><button type="button" onClick=${onClose}>${text('cancel')}</button><button type="submit" class="main">${text('rename')}</button></div>
    </form><//>`
}
